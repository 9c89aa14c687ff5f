//! What the dictionary hands out: definitions of tables, indexes, sequences and users.
//!
//! Plain values, shared by `Arc`, never changed after they were made: a change of an object makes a
//! new definition with a new version. They do no I/O and know nothing of how they are stored.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use block::{Dba, ObjId, Scn};

use super::acl::Acl;
use super::condition::Condition;
use super::expression::KeyExpr;
use super::index::{Included, IndexDef, IndexKind};
use super::times::Times;
use crate::row::KeyOrder;
use crate::row::{ColType, Datum, EnumType, RowTypes, TypeKind, encode_row};

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnDef {
    pub name: String,
    pub ty: ColType,
    pub not_null: bool,
    /// SQL text of the default expression.
    pub default: Option<String>,
    /// What rows from before the column was added read in it, as rows keep values.
    pub missing: Option<Box<[u8]>>,
    pub comment: Option<String>,
    pub generated: Option<Generated>,
    /// Who may do what with this column; `None`: nobody has been granted anything.
    pub acl: Option<Acl>,
}

/// How a column comes by its values, if not as everybody likes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Generated {
    /// Computed from the row's other columns: the default's text is the expression.
    Stored,
    /// From a sequence, whose values alone are accepted.
    Always,
    /// From a sequence, unless a value is given.
    ByDefault,
}

impl Generated {
    /// The letter stored in the dictionary, as in PostgreSQL's `attgenerated` and `attidentity`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Generated::Stored => "s",
            Generated::Always => "a",
            Generated::ByDefault => "d",
        }
    }

    /// Inverse of [`Generated::code`].
    #[must_use]
    pub fn from_code(code: &str) -> Option<Generated> {
        [Generated::Stored, Generated::Always, Generated::ByDefault]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

impl ColumnDef {
    /// A column that accepts NULL and has no default.
    #[must_use]
    pub fn new(name: &str, ty: ColType) -> ColumnDef {
        ColumnDef {
            name: name.to_owned(),
            ty,
            not_null: false,
            default: None,
            missing: None,
            comment: None,
            generated: None,
            acl: None,
        }
    }
}

/// A column as an alteration of its table leaves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlteredColumn {
    /// Its position before; `None`: it is new.
    pub from: Option<usize>,
    pub def: ColumnDef,
}

/// A condition that every row of a table must meet; NULL meets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckDef {
    pub obj: ObjId,
    pub name: String,
    /// SQL text of the condition.
    pub expr: String,
    /// Whether the rows from before it was added are known to meet it too.
    pub valid: bool,
}

/// Something that a view reads: an object, or one of its columns.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Use {
    pub obj: ObjId,
    /// Name of the column; empty: the object as such.
    pub column: String,
}

/// Which conditions a row that is written through a view must meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckOption {
    /// The view's own.
    Local,
    /// Also those of the views below.
    Cascaded,
}

impl CheckOption {
    /// The letter stored in the dictionary.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            CheckOption::Local => "l",
            CheckOption::Cascaded => "c",
        }
    }

    /// Inverse of [`CheckOption::code`].
    #[must_use]
    pub fn from_code(code: &str) -> Option<CheckOption> {
        [CheckOption::Local, CheckOption::Cascaded].into_iter().find(|one| one.code() == code)
    }
}

/// What a view shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewDef {
    /// SQL text of its query.
    pub text: String,
    /// What the query reads, in order.
    pub uses: Vec<Use>,
    pub check: Option<CheckOption>,
}

/// What a materialized view's rows are those of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Materialized {
    pub view: ViewDef,
    /// Whether its rows have been computed since it was made, or made empty.
    pub populated: bool,
}

/// What a foreign key does with the rows that refer to one which goes or changes its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyAction {
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

impl KeyAction {
    /// The letter stored in the dictionary, as in PostgreSQL's `confdeltype`.
    #[must_use]
    pub const fn code(self) -> char {
        match self {
            KeyAction::NoAction => 'a',
            KeyAction::Restrict => 'r',
            KeyAction::Cascade => 'c',
            KeyAction::SetNull => 'n',
            KeyAction::SetDefault => 'd',
        }
    }

    /// Inverse of [`KeyAction::code`].
    #[must_use]
    pub fn from_code(code: char) -> Option<KeyAction> {
        use KeyAction::{Cascade, NoAction, Restrict, SetDefault, SetNull};
        [NoAction, Restrict, Cascade, SetNull, SetDefault].into_iter().find(|a| a.code() == code)
    }
}

/// A foreign key: rows of one table, the child, refer to rows of another, the parent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignKeyDef {
    pub obj: ObjId,
    pub name: String,
    /// The child.
    pub table: ObjId,
    /// Positions of its columns in the child.
    pub columns: Vec<u16>,
    pub parent: ObjId,
    /// The unique index of the parent that it refers to.
    pub index: ObjId,
    /// For each of `columns` which column of the index it is compared with (a position in
    /// [`IndexDef::columns`], so that it stays when the parent's columns move).
    pub parts: Vec<u16>,
    pub on_delete: KeyAction,
    pub on_update: KeyAction,
    /// MATCH FULL: a row with some NULL refers to nothing only if all are NULL; it is refused
    /// otherwise.
    pub full: bool,
    pub deferrable: bool,
    /// A transaction begins with its checks put off to the end.
    pub deferred: bool,
    /// The rows that were there when it was made have been looked through.
    pub validated: bool,
}

impl ForeignKeyDef {
    /// Positions in the parent of the columns it refers to, in the order of `columns`. `None`: the
    /// parent has no such index.
    #[must_use]
    pub fn parent_columns(&self, parent: &TableDef) -> Option<Vec<u16>> {
        let index = parent.indexes.iter().find(|index| index.obj == self.index)?;
        self.parts.iter().map(|part| index.columns.get(usize::from(*part)).copied()).collect()
    }
}

/// Says that another table, or the table itself, refers to this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReferenceDef {
    /// The foreign key.
    pub key: ObjId,
    /// The child, whose definition has it.
    pub table: ObjId,
    /// The index it refers to.
    pub index: ObjId,
}

/// Room for what the layers above make of a definition, made once and shared with it. It is no part
/// of the definition: copies begin without.
#[derive(Default)]
pub struct Derived(OnceLock<Arc<dyn Any + Send + Sync>>);

impl Derived {
    /// What was put in.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(self.0.get()?).downcast().ok()
    }

    /// Puts it in, unless somebody else has already.
    pub fn put<T: Send + Sync + 'static>(&self, value: Arc<T>) {
        // Both were made of the same definition.
        let _ = self.0.set(value);
    }
}

impl Clone for Derived {
    fn clone(&self) -> Derived {
        Derived::default()
    }
}

impl PartialEq for Derived {
    fn eq(&self, _: &Derived) -> bool {
        true
    }
}

impl Eq for Derived {}

impl fmt::Debug for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Derived")
    }
}

/// How many rows of a table this instance has changed since its statistics were last gathered. All
/// versions of the table's definition here share it.
#[derive(Clone, Default, Debug)]
pub struct Changes(Arc<AtomicU64>);

impl Changes {
    pub fn add(&self, rows: u64) {
        self.0.fetch_add(rows, Ordering::Relaxed);
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// So many of them are in the statistics now.
    pub fn taken(&self, rows: u64) {
        self.0.fetch_sub(rows, Ordering::Relaxed);
    }

    /// Whether anything but the list of all counts holds it.
    pub(super) fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Whether it is the same table's.
    #[must_use]
    pub fn is(&self, other: &Changes) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl PartialEq for Changes {
    fn eq(&self, _: &Changes) -> bool {
        true
    }
}

impl Eq for Changes {}

/// A table, or a view, as of one version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableDef {
    pub obj: ObjId,
    pub schema: String,
    pub name: String,
    /// Who it belongs to.
    pub owner: ObjId,
    /// Who may do what with it; `None`: the owner everything.
    pub acl: Option<Acl>,
    pub columns: Vec<ColumnDef>,
    /// The types of `columns`, as the row codec takes them.
    pub types: RowTypes,
    /// Header block of its heap segment; [`Dba::NONE`] for a view.
    pub header: Dba,
    /// SCN of the segment's creation or the table's last truncation: older snapshots cannot read
    /// it.
    pub birth: Scn,
    /// Its indexes over all rows, in the order they were made.
    pub indexes: Vec<Arc<IndexDef>>,
    /// Those over some of the rows: kept as the others are, but read only by who asks for rows
    /// that they hold.
    pub partial: Vec<Arc<IndexDef>>,
    /// Those on expressions, over all rows or some: kept as the others are, but read only by who
    /// knows the expressions.
    pub computed: Vec<Arc<IndexDef>>,
    /// Its CHECK constraints, in the order of their names, as they are told.
    pub checks: Vec<CheckDef>,
    /// Its foreign keys, in the order of their names.
    pub foreign: Vec<Arc<ForeignKeyDef>>,
    /// The foreign keys that refer to it.
    pub referenced: Vec<ReferenceDef>,
    pub comment: Option<String>,
    /// Of a view: there are no rows of its own.
    pub view: Option<ViewDef>,
    /// Of a materialized view, which has rows as a table has.
    pub materialized: Option<Materialized>,
    pub derived: Derived,
    /// What [`super::statistics`] has read, once somebody has asked.
    pub statistics: Derived,
    /// Rows changed here.
    pub changes: Changes,
    /// Changes with every change of the definition and is never used twice in a database.
    pub version: u64,
    /// The version of the last change that matters to who writes rows: not of rights and
    /// statistics.
    pub form: u64,
}

impl TableDef {
    /// Position of the column called `name`.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// What it shows, if that is a query's.
    #[must_use]
    pub fn shows(&self) -> Option<&ViewDef> {
        self.view.as_ref().or_else(|| self.materialized.as_ref().map(|own| &own.view))
    }

    /// All indexes: those over all rows, then the partial ones, then those on expressions.
    pub fn all_indexes(&self) -> impl Iterator<Item = &Arc<IndexDef>> {
        self.indexes.iter().chain(&self.partial).chain(&self.computed)
    }

    /// The index behind the primary key.
    #[must_use]
    pub fn primary_key(&self) -> Option<&Arc<IndexDef>> {
        self.indexes.iter().find(|index| index.primary)
    }

    /// Encodes a row of this table.
    #[must_use]
    pub fn encode(&self, values: &[Datum<'_>]) -> Vec<u8> {
        let mut row = Vec::new();
        encode_row(&self.types, values, &mut row);
        row
    }
}

/// A sequence's definition. How far it has got is not part of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceDef {
    pub obj: ObjId,
    pub schema: String,
    pub name: String,
    pub owner: ObjId,
    /// As [`TableDef::acl`].
    pub acl: Option<Acl>,
    /// The type whose values it gives: one of the three integers.
    pub kind: TypeKind,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    /// Values an instance takes at once; 1: nocache.
    pub cache: i64,
    pub cycle: bool,
    /// Values come in the order of the requests, over all instances.
    pub order: bool,
    /// The table it belongs to (`serial`), with which it is dropped.
    pub table: Option<ObjId>,
    /// How often its rules were changed or it was started anew: values taken by other rules are
    /// not given any more.
    pub generation: i64,
    pub version: u64,
}

impl SequenceDef {
    /// Whether what it holds ahead belongs to all instances: ranges of their own would break the
    /// order.
    #[must_use]
    pub fn has_common_cache(&self) -> bool {
        self.order && self.cache > 1
    }
}

/// A role: a user if it may log on, a group if it has members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserDef {
    pub obj: ObjId,
    pub name: String,
    /// What a password is checked against (SCRAM-SHA-256 verifier); `None`: no password is
    /// accepted.
    pub verifier: Option<String>,
    pub superuser: bool,
    /// Has the privileges of the roles that it is a member of without asking for them.
    pub inherit: bool,
    pub create_role: bool,
    pub create_db: bool,
    pub login: bool,
    pub replication: bool,
    pub bypass_rls: bool,
    /// Sessions at the same time on one instance; -1: no limit.
    pub connections: i32,
    /// Until when the password counts, µs since 2000-01-01; `i64::MAX` for ever.
    pub valid_until: Option<i64>,
    /// Settings that its sessions begin with.
    pub config: Vec<(String, String)>,
    /// When it was made, as [`Times::made_us`].
    pub made_us: Option<i64>,
}

impl UserDef {
    /// A role that may do nothing, as CREATE ROLE makes it when no more is said.
    #[must_use]
    pub fn new(obj: ObjId, name: &str) -> UserDef {
        UserDef {
            obj,
            name: name.to_owned(),
            verifier: None,
            superuser: false,
            inherit: true,
            create_role: false,
            create_db: false,
            login: false,
            replication: false,
            bypass_rls: false,
            connections: -1,
            valid_until: None,
            config: Vec::new(),
            made_us: None,
        }
    }

    /// Takes over what `new` has otherwise than `old`, from which it was made; the name stays.
    pub fn take_changes(&mut self, old: &UserDef, new: UserDef) {
        fn take<T: PartialEq>(now: &mut T, old: &T, new: T) {
            if *old != new {
                *now = new;
            }
        }
        take(&mut self.verifier, &old.verifier, new.verifier);
        take(&mut self.superuser, &old.superuser, new.superuser);
        take(&mut self.inherit, &old.inherit, new.inherit);
        take(&mut self.create_role, &old.create_role, new.create_role);
        take(&mut self.create_db, &old.create_db, new.create_db);
        take(&mut self.login, &old.login, new.login);
        take(&mut self.replication, &old.replication, new.replication);
        take(&mut self.bypass_rls, &old.bypass_rls, new.bypass_rls);
        take(&mut self.connections, &old.connections, new.connections);
        take(&mut self.valid_until, &old.valid_until, new.valid_until);
        take(&mut self.config, &old.config, new.config);
    }
}

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ObjectKind {
    Table,
    Index,
    Sequence,
    View,
    /// A view whose rows are kept, as a table's are.
    Materialized,
}

impl ObjectKind {
    /// The letter stored in the dictionary, as in PostgreSQL's `relkind`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            ObjectKind::Table => "r",
            ObjectKind::Index => "i",
            ObjectKind::Sequence => "S",
            ObjectKind::View => "v",
            ObjectKind::Materialized => "m",
        }
    }

    /// Inverse of [`ObjectKind::code`].
    #[must_use]
    pub fn from_code(code: &str) -> Option<ObjectKind> {
        use ObjectKind::{Index, Materialized, Sequence, Table, View};
        [Table, Index, Sequence, View, Materialized].into_iter().find(|kind| kind.code() == code)
    }
}

/// What every object has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectDef {
    pub obj: ObjId,
    pub owner: ObjId,
    pub schema: String,
    pub name: String,
    /// Of a table, view or sequence.
    pub acl: Option<Acl>,
    pub kind: ObjectKind,
    /// SCN shortly before it was made.
    pub created: Scn,
    pub version: u64,
    /// As [`TableDef::form`].
    pub form: u64,
    pub times: Times,
}

/// A table to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewTable {
    pub schema: String,
    pub name: String,
    pub owner: ObjId,
    pub columns: Vec<ColumnDef>,
    /// Primary key and unique constraints.
    pub indexes: Vec<NewIndex>,
    /// Names and texts of its CHECK constraints.
    pub checks: Vec<(String, String)>,
}

/// A view to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewView {
    pub schema: String,
    pub name: String,
    pub owner: ObjId,
    pub columns: Vec<ColumnDef>,
    pub view: ViewDef,
}

/// A schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemaDef {
    pub obj: ObjId,
    pub name: String,
    pub owner: ObjId,
    pub acl: Option<Acl>,
}

/// All schemas but the system's, as of one version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schemas {
    /// In the order of their names.
    pub all: Vec<SchemaDef>,
    pub version: u64,
}

impl Schemas {
    /// The schema of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&SchemaDef> {
        self.all.iter().find(|schema| schema.name == name)
    }
}

/// An enum type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeDef {
    pub obj: ObjId,
    pub schema: String,
    pub name: String,
    pub owner: ObjId,
    pub acl: Option<Acl>,
    pub comment: Option<String>,
    pub times: Times,
    /// The type of its columns, which knows the labels.
    pub ty: ColType,
    def: &'static EnumType,
}

impl TypeDef {
    pub(super) fn new(def: EnumType, owner: ObjId, acl: Option<Acl>) -> TypeDef {
        let (obj, schema, name) = (def.obj, def.schema.clone(), def.name.clone());
        let (ty, def) = ColType::of_enum(def);
        let (comment, times) = (None, Times::default());
        TypeDef { obj, schema, name, owner, acl, comment, times, ty, def }
    }

    /// Its labels.
    #[must_use]
    pub const fn def(&self) -> &'static EnumType {
        self.def
    }
}

/// All types that users have made, as of one version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Types {
    /// In the order of their schemas and names.
    pub all: Vec<TypeDef>,
    pub version: u64,
}

impl Types {
    /// The type of a name.
    #[must_use]
    pub fn find(&self, schema: &str, name: &str) -> Option<&TypeDef> {
        self.all.iter().find(|ty| ty.schema == schema && ty.name == name)
    }

    /// The type with this number.
    #[must_use]
    pub fn by_obj(&self, obj: ObjId) -> Option<&TypeDef> {
        self.all.iter().find(|ty| ty.obj == obj)
    }
}

/// An index to be made. A primary key makes its columns not null.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewIndex {
    pub kind: IndexKind,
    pub name: String,
    pub columns: Vec<u16>,
    pub included: Included,
    pub orders: Vec<KeyOrder>,
    pub unique: bool,
    pub primary: bool,
    pub constraint: Option<String>,
    pub predicate: Option<Condition>,
    pub exprs: Vec<KeyExpr>,
}

/// A sequence to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSequence {
    pub schema: String,
    pub name: String,
    pub owner: ObjId,
    /// One of the three integers.
    pub kind: TypeKind,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cache: i64,
    pub cycle: bool,
    pub order: bool,
    pub table: Option<ObjId>,
}
