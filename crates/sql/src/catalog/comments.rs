//! Comments that no definition has: on indexes, sequences, constraints, schemas, roles and the
//! database, by the numbers that PostgreSQL gives to the catalogs of these.
//!
//! What it promises: each is found by the catalog of what it is on. What it must never do: tell of
//! tables, views, columns and types, whose definitions know.

use super::Catalog;
use kernel::dict::{CommentDef, Described, PUBLIC_OBJ};

/// The number of the only database.
pub(crate) const DATABASE_OID: u32 = 5;
/// What PostgreSQL says of the schema that every database begins with.
const PUBLIC_COMMENT: &str = "standard public schema";

/// The catalog of what a comment is on, and its number.
const fn class_of(on: Described) -> (&'static str, i64) {
    match on {
        Described::Relation => ("pg_class", 1259),
        Described::Constraint => ("pg_constraint", 2606),
        Described::Schema => ("pg_namespace", 2615),
        Described::Role => ("pg_authid", 1260),
        Described::Database => ("pg_database", 1262),
    }
}

const fn is_shared(on: Described) -> bool {
    matches!(on, Described::Role | Described::Database)
}

impl Catalog {
    /// The comment on something of the database's; `class`: in which catalog it is.
    pub(super) fn comment(&self, class: Option<&str>, oid: i64) -> Option<&str> {
        let mut own = self.comments_on_own();
        let named = |number: i64| match class {
            None => true,
            Some(class) => Described::ALL.iter().any(|on| class_of(*on) == (class, number)),
        };
        own.find(|(number, of, _)| *of == oid && named(*number)).map(|(.., text)| text)
    }

    /// The comment on a role or the database.
    pub(super) fn shared_comment(&self, class: &str, oid: i64) -> Option<&str> {
        let all = self.comments.iter().filter(|one| is_shared(one.on));
        let mut all = all.filter(|one| class_of(one.on).0 == class);
        all.find(|one| i64::from(one.obj.0) == oid).map(|one| one.text.as_str())
    }

    fn listed(&self, shared: bool) -> impl Iterator<Item = (i64, i64, &str)> {
        let told = move |one: &&CommentDef| is_shared(one.on) == shared && !one.text.is_empty();
        let all = self.comments.iter().filter(told);
        all.map(|one| (class_of(one.on).1, i64::from(one.obj.0), one.text.as_str()))
    }

    /// Catalog, object and text of what is in this database.
    pub(super) fn comments_on_own(&self) -> impl Iterator<Item = (i64, i64, &str)> {
        let public = |one: &CommentDef| one.on == Described::Schema && one.obj == PUBLIC_OBJ;
        let said = self.schemas.find("public").is_none_or(|found| found.obj != PUBLIC_OBJ)
            || self.comments.iter().any(public);
        let class = class_of(Described::Schema).1;
        let known = (!said).then_some((class, i64::from(PUBLIC_OBJ.0), PUBLIC_COMMENT));
        known.into_iter().chain(self.listed(false))
    }

    /// The same of what all databases share.
    pub(super) fn comments_on_shared(&self) -> impl Iterator<Item = (i64, i64, &str)> {
        self.listed(true)
    }
}
