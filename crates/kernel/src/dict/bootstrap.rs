//! How the dictionary comes to be, and how it is found again.
//!
//! The first segment made in the data file is that of `bootstrap$`, so its header is always at the
//! same address. Its rows say where the other tables of the dictionary and their indexes are; what
//! columns they have is in the program. From there on the dictionary describes itself.

use std::sync::Arc;

use block::{Dba, ObjId, Scn};
use observe::Ctx;

use super::acl::{Acl, AclKind, EVERYBODY, Privileges};
use super::ddl_roles::insert_user;
use super::def::{
    Changes, ColumnDef, Derived, ObjectDef, ObjectKind, SchemaDef, TableDef, UserDef,
};
use super::fixed::{
    BOOTSTRAP_OBJ, BOOTSTRAP_TYPES, DATABASE_ACL, DATABASE_OWNER, DATABASE_OWNER_ROLE, Fixed,
    PUBLIC, PUBLIC_OBJ, Place, ROLES_VERSION, ROUTINES_VERSION, SCHEMAS_VERSION, SUPERUSER,
    SUPERUSER_OBJ, SYS, TABLES, TYPES_VERSION, USER_OBJ_MIN,
};
use super::ids::NEXT_OBJ;
use super::index::IndexDef;
use super::locks::ObjectLocks;
use super::records::{
    column_values, index_values, key_list, object_values, schema_values, table_values,
};
use super::state::{Dict, autonomous, finish, newest};
use super::store::{self, Record, int8, obj};
use super::times::{Times, now_us};
use crate::btree;
use crate::error::{Error, Result};
use crate::row::Datum;
use crate::space::{DATA_FILE, SegmentKind};
use crate::txn::{Core, Transaction};

/// Header of the first segment in the data file: the first unit after the file map.
pub(super) const BOOTSTRAP_HEADER: Dba = Dba::new(DATA_FILE, 24);

/// Version of the dictionary's layout, in `props$`.
const FORMAT: (&str, &str) = ("dictionary format", "8");

/// The bootstrap table as the rest of the kernel wants it described.
pub(super) fn bootstrap_def(birth: Scn) -> TableDef {
    let names = ["obj", "header", "root", "birth"];
    TableDef {
        obj: BOOTSTRAP_OBJ,
        schema: SYS.to_owned(),
        name: "bootstrap$".to_owned(),
        owner: SUPERUSER_OBJ,
        acl: None,
        columns: names
            .iter()
            .zip(BOOTSTRAP_TYPES)
            .map(|(name, ty)| ColumnDef { not_null: true, ..ColumnDef::new(name, ty) })
            .collect(),
        types: BOOTSTRAP_TYPES.to_vec().into(),
        header: BOOTSTRAP_HEADER,
        birth,
        indexes: Vec::new(),
        partial: Vec::new(),
        computed: Vec::new(),
        checks: Vec::new(),
        foreign: Vec::new(),
        referenced: Vec::new(),
        comment: None,
        view: None,
        materialized: None,
        derived: Derived::default(),
        statistics: Derived::default(),
        changes: Changes::default(),
        version: u64::from(BOOTSTRAP_OBJ.0),
        form: u64::from(BOOTSTRAP_OBJ.0),
    }
}

pub(super) fn place_of(row: &Record) -> Result<Place> {
    let (obj, header) = (row.obj(0)?, row.dba(1)?);
    Ok(Place { obj, header, root: row.dba(2)?, birth: row.scn(3)? })
}

pub(super) fn define_all(places: &[Place]) -> Result<Vec<Arc<TableDef>>> {
    TABLES
        .iter()
        .map(|table| {
            table.define(places).map(Arc::new).ok_or_else(|| Error::Corrupt {
                dba: BOOTSTRAP_HEADER,
                what: format!("bootstrap$ does not say where {} is", table.name),
            })
        })
        .collect()
}

fn install(
    ctx: &Ctx,
    core: &Core,
    bootstrap: TableDef,
    fixed: Vec<Arc<TableDef>>,
    locks: Arc<dyn ObjectLocks>,
) {
    let dict = Dict::new(bootstrap, fixed, locks, Arc::clone(&ctx.observer));
    core.set_dictionary(Box::new(dict));
}

/// Makes the dictionary of a new database, in a data file that holds nothing yet, and opens it.
///
/// # Errors
/// Disk full; the data file is not new.
pub async fn bootstrap(ctx: &Ctx, core: &Arc<Core>, locks: Arc<dyn ObjectLocks>) -> Result<()> {
    let heap = SegmentKind::Heap;
    let (header, birth) = core.space.create_segment(ctx, DATA_FILE, BOOTSTRAP_OBJ, heap).await?;
    if header != BOOTSTRAP_HEADER {
        return Err(Error::Invariant(format!("the first segment is at {header}")));
    }
    let mut places = Vec::new();
    for table in &TABLES {
        let (header, birth) = core.space.create_segment(ctx, DATA_FILE, table.obj, heap).await?;
        places.push(Place { obj: table.obj, header, root: Dba::NONE, birth });
        for index in table.indexes {
            let seg = btree::create(ctx, core, index.obj, true).await?;
            let (header, root, birth) = (seg.header, seg.root, seg.birth);
            places.push(Place { obj: index.obj, header, root, birth });
        }
    }
    let fixed = define_all(&places)?;
    install(ctx, core, bootstrap_def(birth), fixed.clone(), locks);
    let txn = autonomous(core);
    let written = write_all(ctx, &txn, &bootstrap_def(birth), &places, &fixed).await;
    finish(ctx, &txn, written).await
}

async fn write_all(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    bootstrap: &TableDef,
    places: &[Place],
    fixed: &[Arc<TableDef>],
) -> Result<()> {
    for place in places {
        let values = [
            obj(place.obj),
            int8(place.header.to_u64())?,
            int8(place.root.to_u64())?,
            int8(place.birth.0)?,
        ];
        store::insert(ctx, txn, bootstrap, &values).await?;
    }
    let props = &fixed[Fixed::Props as usize];
    let first = USER_OBJ_MIN.to_string();
    let owner = SUPERUSER_OBJ.0.to_string();
    let props_of_new = [
        FORMAT,
        (NEXT_OBJ, first.as_str()),
        (SCHEMAS_VERSION, "1"),
        (ROLES_VERSION, "1"),
        (TYPES_VERSION, "1"),
        (ROUTINES_VERSION, "1"),
        (DATABASE_OWNER, owner.as_str()),
        (DATABASE_ACL, ""),
    ];
    for (name, value) in props_of_new {
        store::insert(ctx, txn, props, &[Datum::Text(name), Datum::Text(value)]).await?;
    }
    let user = UserDef {
        superuser: true,
        create_role: true,
        create_db: true,
        login: true,
        replication: true,
        bypass_rls: true,
        made_us: Some(now_us(ctx)),
        ..UserDef::new(SUPERUSER_OBJ, SUPERUSER)
    };
    insert_user(ctx, txn, &fixed[Fixed::User as usize], &user).await?;
    // Everybody may use what is in it; only the database's owner makes something there.
    let mut rights = Acl::default_of(AclKind::Schema, DATABASE_OWNER_ROLE);
    rights.grant(EVERYBODY, DATABASE_OWNER_ROLE, Privileges::USAGE, Privileges::NONE);
    let (name, owner) = (PUBLIC.to_owned(), DATABASE_OWNER_ROLE);
    let public = SchemaDef { obj: PUBLIC_OBJ, name, owner, acl: None };
    let values = rights.to_string();
    let values = schema_values(&public, Some(&values));
    store::insert(ctx, txn, &fixed[Fixed::Schema as usize], &values).await?;
    write_table(ctx, txn, fixed, bootstrap).await?;
    for table in fixed {
        write_table(ctx, txn, fixed, table).await?;
    }
    Ok(())
}

/// Describes one of the fixed tables in the dictionary, so that the catalog views show it.
async fn write_table(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    fixed: &[Arc<TableDef>],
    def: &TableDef,
) -> Result<()> {
    let into = |table: Fixed| &fixed[table as usize];
    let object = |number: ObjId, name: &str, kind: ObjectKind| ObjectDef {
        obj: number,
        owner: SUPERUSER_OBJ,
        schema: SYS.to_owned(),
        name: name.to_owned(),
        kind,
        acl: None,
        created: def.birth,
        version: u64::from(number.0),
        form: u64::from(number.0),
        times: Times::of_new(ctx),
    };
    let own = object(def.obj, &def.name, ObjectKind::Table);
    store::insert(ctx, txn, into(Fixed::Obj), &object_values(&own)?).await?;
    let place = table_values(def.obj, def.header, def.birth)?;
    store::insert(ctx, txn, into(Fixed::Tab), &place).await?;
    for (position, column) in def.columns.iter().enumerate() {
        let values = column_values(def.obj, position, column, None)?;
        store::insert(ctx, txn, into(Fixed::Col), &values).await?;
    }
    for index in &def.indexes {
        let index: &IndexDef = index;
        let own = object(index.obj, &index.name, ObjectKind::Index);
        store::insert(ctx, txn, into(Fixed::Obj), &object_values(&own)?).await?;
        let columns = key_list(index.kind, index.key_columns(), &index.orders, &index.included);
        store::insert(ctx, txn, into(Fixed::Ind), &index_values(index, &columns, None, None)?)
            .await?;
    }
    Ok(())
}

/// Opens the dictionary of an existing database, once its redo has been applied. When the dead
/// transactions have been rolled back, [`super::free_orphans`] frees what they left behind.
///
/// # Errors
/// [`Error::Corrupt`] if there is no dictionary, or one of another release.
pub async fn open(ctx: &Ctx, core: &Arc<Core>, locks: Arc<dyn ObjectLocks>) -> Result<()> {
    let missing = || Error::Corrupt {
        dba: BOOTSTRAP_HEADER,
        what: "the dictionary does not begin here".into(),
    };
    let info = match core.space.segment_info(ctx, BOOTSTRAP_HEADER).await {
        Ok(info) if info.obj == BOOTSTRAP_OBJ => info,
        Ok(_) | Err(Error::ObjectGone) => return Err(missing()),
        Err(e) => return Err(e),
    };
    let reader = autonomous(core);
    let snap = newest(&reader)?;
    let rows = store::all(ctx, &snap, &bootstrap_def(info.birth)).await?;
    let places = rows.iter().map(place_of).collect::<Result<Vec<_>>>()?;
    let fixed = define_all(&places)?;
    let props = &fixed[Fixed::Props as usize];
    let format = store::one(ctx, &snap, props, 0, &[Datum::Text(FORMAT.0)]).await?;
    let format = format.ok_or_else(missing)?;
    if format.text(1)? != FORMAT.1 {
        let what = format!("the dictionary has format {}, not {}", format.text(1)?, FORMAT.1);
        return Err(Error::Corrupt { dba: BOOTSTRAP_HEADER, what });
    }
    install(ctx, core, bootstrap_def(info.birth), fixed, locks);
    Ok(())
}
