//! The row cache: definitions that this instance has read, shared by all its sessions.
//!
//! Promises: holds committed definitions only; an entry read before an invalidation is never put in
//! after it (`generation`); a hit costs one shared lock and two hash look-ups. Bounded: at
//! [`ENTRIES_MAX`] entries all but the fixed ones are dropped. Does no I/O.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::ObjId;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use super::def::{Schemas, SequenceDef, TableDef, Types, UserDef};
use super::fixed::{ROLES_OBJ, ROUTINES_OBJ, SCHEMAS_OBJ, SYS, TYPES_OBJ};
use super::roles::Roles;
use super::routine::Routines;

/// Most definitions an instance keeps.
pub const ENTRIES_MAX: usize = 16_384;

/// A definition in the cache.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// A table or a view.
    Table(Arc<TableDef>),
    Sequence(Arc<SequenceDef>),
    Schemas(Arc<Schemas>),
    Roles(Arc<Roles>),
    Types(Arc<Types>),
    Routines(Arc<Routines>),
}

impl Entry {
    fn key(&self) -> (ObjId, &str, &str) {
        match self {
            Entry::Table(def) => (def.obj, &def.schema, &def.name),
            Entry::Sequence(def) => (def.obj, &def.schema, &def.name),
            Entry::Schemas(_) => (SCHEMAS_OBJ, SYS, ""),
            Entry::Roles(_) => (ROLES_OBJ, SYS, " "),
            Entry::Types(_) => (TYPES_OBJ, SYS, "  "),
            Entry::Routines(_) => (ROUTINES_OBJ, SYS, "   "),
        }
    }

    fn version(&self) -> u64 {
        match self {
            Entry::Table(def) => def.version,
            Entry::Sequence(def) => def.version,
            Entry::Schemas(def) => def.version,
            Entry::Roles(def) => def.version,
            Entry::Types(def) => def.version,
            Entry::Routines(def) => def.version,
        }
    }
}

#[derive(Default)]
struct Maps {
    names: FxHashMap<String, FxHashMap<String, Entry>>,
    objects: FxHashMap<ObjId, Entry>,
    users: FxHashMap<String, Arc<UserDef>>,
    /// Raised by every invalidation.
    generation: u64,
}

impl Maps {
    fn put(&mut self, entry: Entry) {
        let (obj, schema, name) = entry.key();
        let (schema, name) = (schema.to_owned(), name.to_owned());
        self.objects.insert(obj, entry.clone());
        self.names.entry(schema).or_default().insert(name, entry);
    }

    fn remove(&mut self, obj: ObjId) {
        let Some(entry) = self.objects.remove(&obj) else { return };
        let (_, schema, name) = entry.key();
        if let Some(names) = self.names.get_mut(schema)
            && names.get(name).is_some_and(|named| named.key().0 == obj)
        {
            names.remove(name);
        }
    }
}

/// Counts of one kind of look-up, as `v$rowcache` shows them.
#[derive(Default)]
struct Counters {
    gets: AtomicU64,
    misses: AtomicU64,
    modifications: AtomicU64,
    /// By [`RightMessage`].
    rights: [AtomicU64; 3],
}

/// What instances say to each other of the right to keep or change a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RightMessage {
    /// Another instance was asked for it.
    Request,
    /// Another instance wants it, and this one has it.
    Conflict,
    /// It was given back to another instance.
    Release,
}

/// One line of `v$rowcache`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowCacheStat {
    /// The field's name of the cache: `dc_objects`, `dc_sequences`, `dc_users`.
    pub name: &'static str,
    /// Entries held now.
    pub count: u64,
    pub gets: u64,
    pub misses: u64,
    /// Entries changed by DDL of this or another instance, and by new values of sequences here.
    pub modifications: u64,
    /// Entries held that are never dropped: the dictionary's own tables.
    pub fixed: u64,
    /// Rights asked from another instance, wanted by another, and given back to another.
    pub requests: u64,
    pub conflicts: u64,
    pub releases: u64,
}

/// What is looked up; selects the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Objects,
    Sequences,
    Users,
}

/// See the module.
#[derive(Default)]
pub(super) struct RowCache {
    maps: RwLock<Maps>,
    counters: [Counters; 3],
    fixed: Vec<Arc<TableDef>>,
    /// Objects that are not of [`Part::Objects`]: rights are asked for by number, before there is
    /// an entry. At [`ENTRIES_MAX`] all are forgotten; their messages count as objects' then.
    others: RwLock<FxHashMap<ObjId, Part>>,
}

impl RowCache {
    /// A cache in which the dictionary's own tables stay for ever.
    pub fn new(fixed: Vec<Arc<TableDef>>) -> RowCache {
        let cache = RowCache { fixed, ..RowCache::default() };
        cache.put_fixed(&mut cache.maps.write());
        cache
    }

    fn put_fixed(&self, maps: &mut Maps) {
        for def in &self.fixed {
            maps.put(Entry::Table(Arc::clone(def)));
        }
    }

    /// To be read before what shall be put in is read.
    pub fn generation(&self) -> u64 {
        self.maps.read().generation
    }

    pub fn table(&self, schema: &str, name: &str) -> Option<Arc<TableDef>> {
        self.count(Part::Objects, |maps| match maps.names.get(schema)?.get(name)? {
            Entry::Table(def) => Some(Arc::clone(def)),
            _ => None,
        })
    }

    pub fn schemas(&self) -> Option<Arc<Schemas>> {
        self.count(Part::Objects, |maps| match maps.objects.get(&SCHEMAS_OBJ)? {
            Entry::Schemas(def) => Some(Arc::clone(def)),
            _ => None,
        })
    }

    pub fn roles(&self) -> Option<Arc<Roles>> {
        self.count(Part::Users, |maps| match maps.objects.get(&ROLES_OBJ)? {
            Entry::Roles(def) => Some(Arc::clone(def)),
            _ => None,
        })
    }

    pub fn types(&self) -> Option<Arc<Types>> {
        self.count(Part::Objects, |maps| match maps.objects.get(&TYPES_OBJ)? {
            Entry::Types(def) => Some(Arc::clone(def)),
            _ => None,
        })
    }

    pub fn routines(&self) -> Option<Arc<Routines>> {
        self.count(Part::Objects, |maps| match maps.objects.get(&ROUTINES_OBJ)? {
            Entry::Routines(def) => Some(Arc::clone(def)),
            _ => None,
        })
    }

    pub fn table_by_obj(&self, obj: ObjId) -> Option<Arc<TableDef>> {
        self.count(Part::Objects, |maps| match maps.objects.get(&obj)? {
            Entry::Table(def) => Some(Arc::clone(def)),
            _ => None,
        })
    }

    pub fn sequence(&self, schema: &str, name: &str) -> Option<Arc<SequenceDef>> {
        self.count(Part::Sequences, |maps| match maps.names.get(schema)?.get(name)? {
            Entry::Sequence(def) => Some(Arc::clone(def)),
            _ => None,
        })
    }

    /// What is held of a sequence; no look-up that counts.
    pub fn sequence_held(&self, obj: ObjId) -> Option<Arc<SequenceDef>> {
        match self.maps.read().objects.get(&obj)? {
            Entry::Sequence(def) => Some(Arc::clone(def)),
            _ => None,
        }
    }

    pub fn user(&self, name: &str) -> Option<Arc<UserDef>> {
        self.count(Part::Users, |maps| maps.users.get(name).cloned())
    }

    fn count<T>(&self, part: Part, find: impl FnOnce(&Maps) -> Option<T>) -> Option<T> {
        let counters = &self.counters[part as usize];
        counters.gets.fetch_add(1, Ordering::Relaxed);
        let found = find(&self.maps.read());
        if found.is_none() {
            counters.misses.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// The right to the object is going to be asked for, and it is of this part.
    pub fn note_part(&self, obj: ObjId, part: Part) {
        if self.others.read().get(&obj) == Some(&part) {
            return;
        }
        let mut others = self.others.write();
        if others.len() >= ENTRIES_MAX {
            others.clear();
        }
        others.insert(obj, part);
    }

    /// Counts a message about the right to the object.
    pub fn count_right(&self, obj: ObjId, message: RightMessage) {
        let part = match self.others.read().get(&obj) {
            Some(part) => *part,
            None if obj == ROLES_OBJ => Part::Users,
            None => Part::Objects,
        };
        let counters = &self.counters[part as usize];
        counters.rights[message as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the object is held in this version.
    pub fn is_current(&self, obj: ObjId, version: u64) -> bool {
        self.maps.read().objects.get(&obj).is_some_and(|entry| entry.version() == version)
    }

    /// Puts in what was read since `generation`; `false` (and nothing done) if there was an
    /// invalidation meanwhile.
    pub fn put(&self, generation: u64, entry: Entry) -> bool {
        self.put_with(generation, |maps| maps.put(entry))
    }

    pub fn put_user(&self, generation: u64, user: Arc<UserDef>) -> bool {
        self.put_with(generation, |maps| {
            maps.users.insert(user.name.clone(), user);
        })
    }

    fn put_with(&self, generation: u64, put: impl FnOnce(&mut Maps)) -> bool {
        let mut maps = self.maps.write();
        if maps.generation != generation {
            return false;
        }
        if maps.objects.len() + maps.users.len() >= ENTRIES_MAX + self.fixed.len() {
            *maps = Maps { generation, ..Maps::default() };
            self.put_fixed(&mut maps);
        }
        put(&mut maps);
        true
    }

    /// The object has changed: nobody gets the old definition any more.
    pub fn invalidate(&self, obj: ObjId) {
        let mut maps = self.maps.write();
        let is_user = maps.users.values().any(|user| user.obj == obj);
        let part = match maps.objects.get(&obj) {
            Some(Entry::Sequence(_)) => Part::Sequences,
            _ if is_user => Part::Users,
            _ => Part::Objects,
        };
        maps.generation += 1;
        maps.remove(obj);
        if is_user {
            maps.users.retain(|_, user| user.obj != obj);
        }
        self.counters[part as usize].modifications.fetch_add(1, Ordering::Relaxed);
    }

    pub fn invalidate_user(&self, name: &str) {
        let mut maps = self.maps.write();
        maps.generation += 1;
        maps.users.remove(name);
        self.counters[Part::Users as usize].modifications.fetch_add(1, Ordering::Relaxed);
    }

    /// A sequence's entry has been changed in what no definition holds: how far it has got.
    pub fn count_sequence_change(&self) {
        let counters = &self.counters[Part::Sequences as usize];
        counters.modifications.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets all but the fixed tables: after a membership change nobody knows what was missed.
    pub fn clear(&self) {
        let mut maps = self.maps.write();
        let generation = maps.generation + 1;
        *maps = Maps { generation, ..Maps::default() };
        self.put_fixed(&mut maps);
    }

    pub fn stats(&self) -> Vec<RowCacheStat> {
        let maps = self.maps.read();
        let sequences =
            maps.objects.values().filter(|entry| matches!(entry, Entry::Sequence(_))).count();
        let parts = [
            ("dc_objects", Part::Objects, maps.objects.len() - sequences),
            ("dc_sequences", Part::Sequences, sequences),
            ("dc_users", Part::Users, maps.users.len()),
        ];
        parts
            .into_iter()
            .map(|(name, part, count)| {
                let counters = &self.counters[part as usize];
                let [requests, conflicts, releases] =
                    [0, 1, 2].map(|i| counters.rights[i].load(Ordering::Relaxed));
                RowCacheStat {
                    name,
                    count: count as u64,
                    gets: counters.gets.load(Ordering::Relaxed),
                    misses: counters.misses.load(Ordering::Relaxed),
                    modifications: counters.modifications.load(Ordering::Relaxed),
                    fixed: if part == Part::Objects { self.fixed.len() as u64 } else { 0 },
                    requests,
                    conflicts,
                    releases,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use block::{Dba, Scn};

    use super::*;

    fn table(obj: u32, name: &str, version: u64) -> Arc<TableDef> {
        Arc::new(TableDef {
            obj: ObjId(obj),
            schema: "public".into(),
            name: name.into(),
            owner: ObjId(10),
            acl: None,
            columns: vec![],
            types: vec![].into(),
            header: Dba::NONE,
            birth: Scn(1),
            indexes: vec![],
            partial: vec![],
            computed: vec![],
            checks: vec![],
            foreign: vec![],
            referenced: vec![],
            comment: None,
            view: None,
            materialized: None,
            derived: crate::dict::Derived::default(),
            statistics: crate::dict::Derived::default(),
            changes: crate::dict::Changes::default(),
            version,
            form: version,
        })
    }

    #[test]
    fn what_was_read_before_an_invalidation_is_not_put_in_after_it() {
        let cache = RowCache::new(vec![]);
        let before = cache.generation();
        cache.invalidate(ObjId(20_000));
        assert!(!cache.put(before, Entry::Table(table(20_000, "t", 1))));
        assert!(cache.table("public", "t").is_none());
        let now = cache.generation();
        assert!(cache.put(now, Entry::Table(table(20_000, "t", 2))));
        assert!(cache.is_current(ObjId(20_000), 2) && !cache.is_current(ObjId(20_000), 1));
    }

    #[test]
    fn a_name_that_another_object_took_over_survives_the_old_ones_invalidation() {
        let cache = RowCache::new(vec![]);
        cache.put(0, Entry::Table(table(20_000, "t", 1)));
        cache.put(0, Entry::Table(table(20_001, "t", 2)));
        cache.invalidate(ObjId(20_000));
        assert_eq!(cache.table("public", "t").expect("the new one").obj, ObjId(20_001));
    }

    #[test]
    fn the_limit_drops_all_but_the_fixed() {
        let cache = RowCache::new(vec![table(2, "obj$", 2)]);
        for obj in 0..ENTRIES_MAX + 1 {
            let obj = 20_000 + u32::try_from(obj).expect("small");
            assert!(cache.put(0, Entry::Table(table(obj, &format!("t{obj}"), 1))));
        }
        assert_eq!(cache.stats()[0].count, 2);
        assert!(cache.is_current(ObjId(2), 2));
    }

    #[test]
    fn messages_about_rights_are_counted_by_what_they_are_about() {
        let cache = RowCache::new(vec![table(2, "obj$", 2)]);
        cache.note_part(ObjId(20_000), Part::Sequences);
        cache.count_right(ObjId(20_000), RightMessage::Request);
        cache.count_right(ObjId(20_001), RightMessage::Request);
        cache.count_right(ObjId(20_001), RightMessage::Conflict);
        cache.count_right(ROLES_OBJ, RightMessage::Release);
        let stats = cache.stats();
        let rights: Vec<_> =
            stats.iter().map(|s| (s.fixed, s.requests, s.conflicts, s.releases)).collect();
        assert_eq!(rights, [(1, 1, 1, 0), (0, 1, 0, 0), (0, 0, 0, 1)]);
    }

    #[test]
    fn gets_misses_and_modifications_are_counted() {
        let cache = RowCache::new(vec![]);
        assert!(cache.user("skein").is_none());
        let user = UserDef::new(ObjId(10), "skein");
        cache.put_user(0, Arc::new(user.clone()));
        assert!(cache.user("skein").is_some());
        // Another instance changes it: only its number is told.
        cache.invalidate(ObjId(10));
        assert!(cache.user("skein").is_none());
        cache.put_user(cache.generation(), Arc::new(user));
        assert!(cache.user("skein").is_some());
        cache.invalidate_user("skein");
        let stat = cache.stats()[2];
        assert_eq!((stat.gets, stat.misses, stat.modifications, stat.count), (4, 2, 2, 0));
        cache.clear();
        assert_eq!(cache.stats()[0].count, 0);
    }
}
