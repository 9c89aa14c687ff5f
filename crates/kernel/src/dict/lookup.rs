//! Definitions by name and by number, and the objects behind the catalog views.
//!
//! A transaction that has changed an object reads it from the dictionary itself, with its own
//! changes; everybody else goes through the row cache, which holds what is committed.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::cache::{Entry, Part, RightMessage, RowCacheStat};
use super::def::{ObjectDef, ObjectKind, SequenceDef, TableDef, UserDef};
use super::fixed::Fixed;
use super::records::{
    object_by_name, object_by_obj, object_of, read_sequence, read_table, read_user, user_of,
    user_of_use,
};
use super::state::{Dict, autonomous, newest, of};
use super::store;
use crate::error::{Error, Result};
use crate::txn::{Core, Snapshot, Transaction};

/// How often a definition is read again because it changed while it was read. After that it is used
/// as read, uncached: whoever relies on it checks its version under a lock.
pub const LOAD_TRIES: u32 = 8;

/// How an object was named.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Name(&'a str, &'a str),
    Obj(ObjId),
}

impl Wanted<'_> {
    async fn find(self, ctx: &Ctx, dict: &Dict, snap: &Snapshot) -> Result<Option<ObjectDef>> {
        match self {
            Wanted::Name(schema, name) => object_by_name(ctx, dict, snap, schema, name).await,
            Wanted::Obj(obj) => object_by_obj(ctx, dict, snap, obj).await,
        }
    }
}

/// The definition of the object at this snapshot, if it is a table or a sequence.
async fn read_entry(
    ctx: &Ctx,
    dict: &Dict,
    snap: &Snapshot,
    object: &ObjectDef,
) -> Result<Option<Entry>> {
    Ok(match object.kind {
        ObjectKind::Table | ObjectKind::View | ObjectKind::Materialized => {
            let def = read_table(ctx, dict, snap, object).await?;
            def.map(|def| Entry::Table(Arc::new(def)))
        }
        ObjectKind::Sequence => {
            let def = read_sequence(ctx, dict, snap, object).await?;
            def.map(|def| Entry::Sequence(Arc::new(def)))
        }
        ObjectKind::Index => None,
    })
}

/// Reads a committed definition and puts it into the row cache.
async fn load(ctx: &Ctx, txn: &Arc<Transaction>, wanted: Wanted<'_>) -> Result<Option<Entry>> {
    let dict = of(txn.core())?;
    let reader = autonomous(txn.core());
    let mut tries = 0;
    loop {
        let snap = newest(&reader)?;
        let Some(found) = wanted.find(ctx, dict, &snap).await? else { return Ok(None) };
        if found.kind == ObjectKind::Sequence {
            dict.cache.note_part(found.obj, Part::Sequences);
        }
        let generation = dict.right_to_keep(ctx, txn, found.obj).await?;
        // What counts is what is there now that we have the right to keep it.
        let snap = newest(&reader)?;
        let Some(object) = wanted.find(ctx, dict, &snap).await? else { return Ok(None) };
        let entry = read_entry(ctx, dict, &snap, &object).await?;
        tries += 1;
        let Some(entry) = entry else { return Ok(None) };
        let kept = object.obj == found.obj && dict.cache.put(generation, entry.clone());
        if kept || tries == LOAD_TRIES {
            return Ok(Some(entry));
        }
    }
}

/// Reads a definition that the transaction has changed.
async fn read_own(ctx: &Ctx, txn: &Arc<Transaction>, wanted: Wanted<'_>) -> Result<Option<Entry>> {
    let dict = of(txn.core())?;
    let snap = newest(txn)?;
    let Some(object) = wanted.find(ctx, dict, &snap).await? else { return Ok(None) };
    dict.note_version(txn, object.obj, object.version);
    read_entry(ctx, dict, &snap, &object).await
}

fn as_table(entry: Option<Entry>) -> Option<Arc<TableDef>> {
    match entry {
        Some(Entry::Table(def)) => Some(def),
        _ => None,
    }
}

fn as_sequence(entry: Option<Entry>) -> Option<Arc<SequenceDef>> {
    match entry {
        Some(Entry::Sequence(def)) => Some(def),
        _ => None,
    }
}

/// A sequence as it is now, of whose definition the transaction has the right alone.
pub(super) async fn newest_sequence(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    obj: ObjId,
) -> Result<Option<Arc<SequenceDef>>> {
    read_own(ctx, txn, Wanted::Obj(obj)).await.map(as_sequence)
}

/// The table or view with this name.
///
/// # Errors
/// What reading the dictionary's blocks can fail with.
pub async fn table(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    schema: &str,
    name: &str,
) -> Result<Option<Arc<TableDef>>> {
    let dict = of(txn.core())?;
    let wanted = Wanted::Name(schema, name);
    if dict.has_touched_name(txn, schema, name) {
        return read_own(ctx, txn, wanted).await.map(as_table);
    }
    match dict.cache.table(schema, name) {
        Some(def) => Ok(Some(def)),
        None => load(ctx, txn, wanted).await.map(as_table),
    }
}

/// The table or view with this number.
///
/// # Errors
/// As [`table`].
pub async fn table_by_obj(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    obj: ObjId,
) -> Result<Option<Arc<TableDef>>> {
    let dict = of(txn.core())?;
    if dict.has_touched_object(txn, obj) {
        return read_own(ctx, txn, Wanted::Obj(obj)).await.map(as_table);
    }
    match dict.cache.table_by_obj(obj) {
        Some(def) => Ok(Some(def)),
        None => load(ctx, txn, Wanted::Obj(obj)).await.map(as_table),
    }
}

/// The sequence with this name.
///
/// # Errors
/// As [`table`].
pub async fn sequence(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    schema: &str,
    name: &str,
) -> Result<Option<Arc<SequenceDef>>> {
    let dict = of(txn.core())?;
    let wanted = Wanted::Name(schema, name);
    if dict.has_touched_name(txn, schema, name) {
        return read_own(ctx, txn, wanted).await.map(as_sequence);
    }
    match dict.cache.sequence(schema, name) {
        Some(def) => Ok(Some(def)),
        None => load(ctx, txn, wanted).await.map(as_sequence),
    }
}

/// The user with this name.
///
/// # Errors
/// As [`table`].
pub async fn user(ctx: &Ctx, txn: &Arc<Transaction>, name: &str) -> Result<Option<Arc<UserDef>>> {
    let dict = of(txn.core())?;
    if dict.has_touched_user(txn, name) {
        let snap = newest(txn)?;
        return Ok(read_user(ctx, dict, &snap, name).await?.map(Arc::new));
    }
    if let Some(user) = dict.cache.user(name) {
        return Ok(Some(user));
    }
    let reader = autonomous(txn.core());
    let mut tries = 0;
    loop {
        let snap = newest(&reader)?;
        let Some(found) = read_user(ctx, dict, &snap, name).await? else { return Ok(None) };
        dict.cache.note_part(found.obj, Part::Users);
        let generation = dict.right_to_keep(ctx, txn, found.obj).await?;
        let snap = newest(&reader)?;
        let Some(user) = read_user(ctx, dict, &snap, name).await? else { return Ok(None) };
        let user = Arc::new(user);
        tries += 1;
        let same = user.obj == found.obj;
        if (same && dict.cache.put_user(generation, Arc::clone(&user))) || tries == LOAD_TRIES {
            return Ok(Some(user));
        }
    }
}

/// Whether a definition in this version is still what the transaction would be given. Plans ask it
/// before each use, changes of rows again under their TM lock. `false` may also mean that nobody
/// looked the object up lately.
#[must_use]
pub fn is_current(txn: &Transaction, obj: ObjId, version: u64) -> bool {
    of(txn.core()).is_ok_and(|dict| dict.is_current(txn, obj, version))
}

/// Checks a definition once the table is locked against DDL: from here on it stays as it is. The
/// cheap answer comes from the row cache, the final one from the dictionary.
///
/// # Errors
/// [`Error::ObjectGone`] if the table was dropped or changed since the definition was read: the
/// statement must look it up again.
pub async fn confirm(ctx: &Ctx, txn: &Arc<Transaction>, def: &TableDef) -> Result<()> {
    if is_current(txn, def.obj, def.version) {
        return Ok(());
    }
    match table_by_obj(ctx, txn, def.obj).await? {
        Some(now) if now.form == def.form => Ok(()),
        _ => Err(Error::ObjectGone),
    }
}

/// What has this name: tables, indexes and sequences share one name space.
///
/// # Errors
/// As [`table`].
pub async fn object(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    schema: &str,
    name: &str,
) -> Result<Option<ObjectDef>> {
    let snap = newest(txn)?;
    object_by_name(ctx, of(txn.core())?, &snap, schema, name).await
}

/// All objects, those of the dictionary included, in the order of their names.
///
/// # Errors
/// As [`table`].
pub async fn objects(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Vec<ObjectDef>> {
    let snap = newest(txn)?;
    all_objects(ctx, of(txn.core())?, &snap).await
}

async fn all_objects(ctx: &Ctx, dict: &Dict, snap: &Snapshot) -> Result<Vec<ObjectDef>> {
    let rows = store::all(ctx, snap, dict.fixed(Fixed::Obj)).await?;
    let mut objects = rows.iter().map(object_of).collect::<Result<Vec<_>>>()?;
    objects.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
    Ok(objects)
}

/// All that has rows: tables, those of the dictionary included, and materialized views, in the
/// order of their names.
///
/// # Errors
/// As [`table`].
pub async fn tables(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Vec<Arc<TableDef>>> {
    of_kinds(ctx, txn, &[ObjectKind::Table, ObjectKind::Materialized]).await
}

/// All views, in the order of their names.
///
/// # Errors
/// As [`table`].
pub async fn views(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Vec<Arc<TableDef>>> {
    of_kinds(ctx, txn, &[ObjectKind::View]).await
}

async fn of_kinds(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    kinds: &[ObjectKind],
) -> Result<Vec<Arc<TableDef>>> {
    let mut found = Vec::new();
    for object in objects(ctx, txn).await? {
        if kinds.contains(&object.kind) {
            found.extend(table_by_obj(ctx, txn, object.obj).await?);
        }
    }
    Ok(found)
}

/// The views that use an object, each with the name of the column, empty for the object as such.
/// Whoever has locked the object against everybody knows that there are no others.
///
/// # Errors
/// As [`table`].
pub async fn dependents(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    used: ObjId,
) -> Result<Vec<(ObjId, String)>> {
    let (dict, snap) = (of(txn.core())?, newest(txn)?);
    let key = super::store::obj_key(used);
    let rows = store::by_key(ctx, &snap, dict.fixed(Fixed::Dep), 1, &key).await?;
    rows.iter().map(user_of_use).collect()
}

/// All sequences, in the order of their names.
///
/// # Errors
/// As [`table`].
pub async fn sequences(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Vec<Arc<SequenceDef>>> {
    let mut sequences = Vec::new();
    for object in objects(ctx, txn).await? {
        if object.kind == ObjectKind::Sequence {
            sequences.extend(sequence(ctx, txn, &object.schema, &object.name).await?);
        }
    }
    Ok(sequences)
}

/// All users, in the order of their names.
///
/// # Errors
/// As [`table`].
pub async fn users(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Vec<UserDef>> {
    let snap = newest(txn)?;
    let rows = store::all(ctx, &snap, of(txn.core())?.fixed(Fixed::User)).await?;
    let mut users = rows.iter().map(user_of).collect::<Result<Vec<_>>>()?;
    users.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(users)
}

/// Tells of the latches of the sequences that this instance has values of.
pub(crate) fn sequence_latches(core: &Core, list: &mut env::latch::LatchList) {
    if let Ok(dict) = of(core) {
        dict.sequences.latches(list);
    }
}

/// Counts a message to or from another instance about the right to an object's definition.
pub(crate) fn count_right(core: &Core, obj: ObjId, message: RightMessage) {
    if let Ok(dict) = of(core) {
        dict.cache.count_right(obj, message);
    }
}

/// The row cache's counters, one line for each kind of entry.
#[must_use]
pub fn row_cache_stats(core: &Core) -> Vec<RowCacheStat> {
    of(core).map(|dict| dict.cache.stats()).unwrap_or_default()
}
