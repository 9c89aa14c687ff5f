//! The dictionary of one open instance: the fixed tables, the row cache, and what open transactions
//! have changed but not committed.
//!
//! Promises: the definitions a transaction has changed are seen by it alone until it commits, and
//! at its commit nobody here gets an older one, before the commit is acknowledged.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use block::ObjId;
use observe::{Ctx, Observer, SessionKind};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use super::cache::RowCache;
use super::def::{Changes, SequenceDef, TableDef};
use super::expression::{Evaluator, KeyExpressions};
use super::fixed::Fixed;
use super::ids::Ids;
use super::locks::{ObjectLocks, ObjectMode};
use super::segments;
use crate::error::{Error, Result};
use crate::seq::Caches;
use crate::txn::{Core, Snapshot, Transaction};

/// Tables up to which the counts of their changed rows are simply kept.
const CHANGES_MIN: usize = 1_000;
/// So few changed rows may be forgotten.
const CHANGES_FEW: u64 = 50;

/// What a transaction has changed in the dictionary.
#[derive(Default)]
pub(super) struct Touched {
    /// Objects whose definition it has the right to change.
    excluded: FxHashSet<ObjId>,
    /// With the version last read and how often the transaction had rolled back to a savepoint
    /// then; `None`: changed since it was read.
    pub objects: FxHashMap<ObjId, Option<(u64, u64)>>,
    pub names: FxHashSet<(String, String)>,
    pub users: FxHashSet<String>,
    pub dropped_sequences: FxHashSet<ObjId>,
    /// Whether its end leaves segments to be freed.
    pub orphans: bool,
}

/// See the module. Kept by [`Core`], reached with [`of`].
pub struct Dict {
    fixed: Vec<Arc<TableDef>>,
    pub(super) cache: RowCache,
    pub(super) locks: Arc<dyn ObjectLocks>,
    pub(super) ids: Ids,
    pub(super) segments: segments::Guard,
    /// Opens the sessions of background work.
    pub(super) observer: Arc<Observer>,
    pub(crate) sequences: Caches,
    /// Rows that this instance has changed, by table.
    changes: Mutex<FxHashMap<ObjId, Changes>>,
    /// Who computes the keys of indexes on expressions.
    expressions: OnceLock<Arc<dyn KeyExpressions>>,
    /// By the transaction's local number.
    touched: Mutex<FxHashMap<u64, Touched>>,
    /// Number of entries of `touched`, so that look-ups need not lock it.
    touched_count: AtomicUsize,
}

impl Dict {
    pub(super) fn new(
        bootstrap: TableDef,
        fixed: Vec<Arc<TableDef>>,
        locks: Arc<dyn ObjectLocks>,
        observer: Arc<Observer>,
    ) -> Dict {
        let mut cached = fixed.clone();
        cached.push(Arc::new(bootstrap));
        Dict {
            cache: RowCache::new(cached),
            fixed,
            locks,
            ids: Ids::default(),
            segments: segments::Guard::default(),
            observer,
            sequences: Caches::default(),
            changes: Mutex::default(),
            expressions: OnceLock::new(),
            touched: Mutex::default(),
            touched_count: AtomicUsize::new(0),
        }
    }

    /// A table of the dictionary.
    pub(crate) fn fixed(&self, table: Fixed) -> &Arc<TableDef> {
        &self.fixed[table as usize]
    }

    pub(super) fn set_key_expressions(&self, own: Arc<dyn KeyExpressions>) {
        // A second one has come for the same work.
        let _ = self.expressions.set(own);
    }

    pub(super) fn evaluator(&self) -> Evaluator {
        Evaluator(self.expressions.get().cloned())
    }

    /// How far a sequence has got was changed in its entry.
    pub(crate) fn count_sequence_change(&self) {
        self.cache.count_sequence_change();
    }

    /// The definition of a sequence, if this instance has it in memory.
    pub(crate) fn sequence_held(&self, obj: ObjId) -> Option<Arc<SequenceDef>> {
        self.cache.sequence_held(obj)
    }

    /// The count of a table's changed rows.
    pub(super) fn changes_of(&self, table: ObjId) -> Changes {
        let mut all = self.changes.lock();
        if !all.contains_key(&table) && all.len() >= CHANGES_MIN && all.len() == all.capacity() {
            // Before the map grows: a table that another instance has dropped is never asked for
            // again, and one that is not in use can begin anew.
            all.retain(|_, changes| changes.is_in_use() || changes.count() > CHANGES_FEW);
        }
        all.entry(table).or_default().clone()
    }

    /// Whether the transaction has changed what `matches` looks for.
    fn has_touched(&self, txn: &Transaction, matches: impl FnOnce(&Touched) -> bool) -> bool {
        if self.touched_count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.touched.lock().get(&txn.local_id()).is_some_and(matches)
    }

    pub(crate) fn has_touched_object(&self, txn: &Transaction, obj: ObjId) -> bool {
        self.has_touched(txn, |touched| touched.objects.contains_key(&obj))
    }

    /// Notes the version in which the transaction sees an object that it has changed.
    pub(super) fn note_version(&self, txn: &Transaction, obj: ObjId, version: u64) {
        if let Some(touched) = self.touched.lock().get_mut(&txn.local_id())
            && let Some(seen) = touched.objects.get_mut(&obj)
        {
            *seen = Some((version, txn.rollbacks_to()));
        }
    }

    /// Whether this is the version in which the transaction sees the object.
    pub(super) fn is_current(&self, txn: &Transaction, obj: ObjId, version: u64) -> bool {
        let mut own = None;
        self.has_touched(txn, |touched| {
            own = touched.objects.get(&obj).copied();
            own.is_some()
        });
        match own {
            None => self.cache.is_current(obj, version),
            Some(seen) => seen == Some((version, txn.rollbacks_to())),
        }
    }

    /// Takes the right to keep the object's definition; what is read of it from here on may be put
    /// in the row cache with the generation that is told. That is read before the right is taken:
    /// another instance may want it back at once, even before the caller goes on, and whoever gives
    /// it back raises the generation.
    pub(super) async fn right_to_keep(
        &self,
        ctx: &Ctx,
        txn: &Transaction,
        obj: ObjId,
    ) -> Result<u64> {
        let generation = self.cache.generation();
        self.locks.lock_object(ctx, txn, obj, ObjectMode::S).await?;
        Ok(generation)
    }

    /// [`Dict::right_to_keep`] if nobody stands in the way.
    pub(super) async fn try_right_to_keep(
        &self,
        ctx: &Ctx,
        txn: &Transaction,
        obj: ObjId,
    ) -> Result<Option<u64>> {
        let generation = self.cache.generation();
        Ok(self.locks.try_lock_object(ctx, txn, obj).await?.then_some(generation))
    }

    pub(super) fn has_touched_name(&self, txn: &Transaction, schema: &str, name: &str) -> bool {
        self.has_touched(txn, |touched| touched.names.iter().any(|(s, n)| s == schema && n == name))
    }

    pub(super) fn has_touched_user(&self, txn: &Transaction, name: &str) -> bool {
        self.has_touched(txn, |touched| touched.users.contains(name))
    }
}

/// The dictionary of this instance.
///
/// # Errors
/// [`Error::Closing`] while the instance is not open.
pub(crate) fn of(core: &Core) -> Result<&Dict> {
    core.dictionary().and_then(|dict| dict.downcast_ref::<Dict>()).ok_or(Error::Closing)
}

/// The tables whose definitions have been asked for here, with how many of their rows this instance
/// has changed, in the order of their numbers.
#[must_use]
pub fn changed_tables(core: &Core) -> Vec<(ObjId, Changes)> {
    let Ok(dict) = of(core) else { return Vec::new() };
    let changed =
        |(obj, changes): (&ObjId, &Changes)| (changes.count() > 0).then(|| (*obj, changes.clone()));
    let mut all: Vec<_> = dict.changes.lock().iter().filter_map(changed).collect();
    all.sort_by_key(|(obj, _)| *obj);
    all
}

/// The table is gone.
pub fn forget_changes(core: &Core, table: ObjId) {
    if let Ok(dict) = of(core) {
        dict.changes.lock().remove(&table);
    }
}

/// A transaction of the dictionary's own, committed or rolled back before its caller goes on.
pub(crate) fn autonomous(core: &Arc<Core>) -> Arc<Transaction> {
    Transaction::begin_recursive(core)
}

/// What is committed now and what the transaction itself has changed, whatever its isolation level:
/// the dictionary is always read as it stands.
pub(crate) fn newest(txn: &Arc<Transaction>) -> Result<Snapshot> {
    txn.newest_snapshot()
}

/// Ends an [`autonomous`] transaction as its work has ended: committed means durable.
pub(crate) async fn finish<T>(ctx: &Ctx, txn: &Arc<Transaction>, result: Result<T>) -> Result<T> {
    match result {
        Ok(value) => {
            txn.commit(ctx).await?;
            Ok(value)
        }
        Err(e) => {
            // Not in the caller's context: what has interrupted it would interrupt the rollback
            // too.
            let observer = &of(txn.core())?.observer;
            txn.rollback(&observer.ctx(SessionKind::Background, "rollback")).await?;
            Err(e)
        }
    }
}

/// Takes the right to change the object's definition; kept until the transaction ends.
pub(super) async fn exclude(ctx: &Ctx, txn: &Arc<Transaction>, obj: ObjId) -> Result<()> {
    let dict = of(txn.core())?;
    if dict.has_touched(txn, |touched| touched.excluded.contains(&obj)) {
        return Ok(());
    }
    dict.locks.lock_object(ctx, txn, obj, ObjectMode::X).await?;
    touch(txn, |touched| {
        touched.excluded.insert(obj);
    })
}

/// Notes what the transaction is changing. From here on it alone reads around the row cache.
pub(super) fn touch(txn: &Arc<Transaction>, note: impl FnOnce(&mut Touched)) -> Result<()> {
    let dict = of(txn.core())?;
    let id = txn.local_id();
    let first = {
        let mut all = dict.touched.lock();
        let first = !all.contains_key(&id);
        note(all.entry(id).or_default());
        if first {
            dict.touched_count.fetch_add(1, Ordering::Relaxed);
        }
        first
    };
    if first {
        let core = Arc::clone(txn.core());
        txn.on_commit(Box::new(move || ended(&core, id, true)));
        let core = Arc::clone(txn.core());
        txn.on_rollback(Box::new(move || ended(&core, id, false)));
    }
    Ok(())
}

/// The transaction's changes are durable and visible, or taken back; its locks are still held and
/// nobody has been told yet.
fn ended(core: &Arc<Core>, id: u64, committed: bool) {
    let Ok(dict) = of(core) else { return };
    let Some(touched) = dict.touched.lock().remove(&id) else { return };
    dict.touched_count.fetch_sub(1, Ordering::Relaxed);
    if committed {
        for obj in touched.objects.keys() {
            dict.cache.invalidate(*obj);
        }
        for obj in &touched.dropped_sequences {
            dict.sequences.forget(*obj);
        }
        for user in &touched.users {
            dict.cache.invalidate_user(user);
        }
        // A snapshot taken from now on sees the change, even if commits before it are under way.
        core.snapshots.raise_floor(core.current_scn());
    }
    for obj in touched.excluded {
        dict.locks.unlock_object(id, obj);
    }
    if touched.orphans {
        // The dictionary is open: its transaction has just ended.
        let _ = segments::free_in_background(core);
    }
}

/// Another instance is going to change the object: its definition must not be used any more.
pub fn invalidate(core: &Core, obj: ObjId) {
    if let Ok(dict) = of(core) {
        dict.cache.invalidate(obj);
        dict.sequences.doubt(obj);
    }
}

/// Forgets all definitions; see [`ObjectLocks`].
pub fn invalidate_all(core: &Core) {
    if let Ok(dict) = of(core) {
        dict.cache.clear();
    }
}
