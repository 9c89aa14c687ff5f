//! Access control lists: who may do what with an object, and who has said so.
//!
//! An object keeps its list beside its owner, as PostgreSQL does; none means that only what the
//! object's kind gives by default counts. Plain values: no I/O, no caches, no names of roles.

use std::fmt;

use block::ObjId;

/// Everybody, where a role is expected.
pub const EVERYBODY: ObjId = ObjId(0);

/// A set of privileges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Privileges(pub u16);

impl Privileges {
    pub const NONE: Privileges = Privileges(0);
    pub const INSERT: Privileges = Privileges(1);
    pub const SELECT: Privileges = Privileges(1 << 1);
    pub const UPDATE: Privileges = Privileges(1 << 2);
    pub const DELETE: Privileges = Privileges(1 << 3);
    pub const TRUNCATE: Privileges = Privileges(1 << 4);
    pub const REFERENCES: Privileges = Privileges(1 << 5);
    pub const TRIGGER: Privileges = Privileges(1 << 6);
    pub const EXECUTE: Privileges = Privileges(1 << 7);
    pub const USAGE: Privileges = Privileges(1 << 8);
    pub const CREATE: Privileges = Privileges(1 << 9);
    pub const TEMPORARY: Privileges = Privileges(1 << 10);
    pub const CONNECT: Privileges = Privileges(1 << 11);

    /// Each with its letter, in the order in which they are shown, and its word.
    pub const ALL: [(Privileges, char, &'static str); 12] = [
        (Privileges::INSERT, 'a', "INSERT"),
        (Privileges::SELECT, 'r', "SELECT"),
        (Privileges::UPDATE, 'w', "UPDATE"),
        (Privileges::DELETE, 'd', "DELETE"),
        (Privileges::TRUNCATE, 'D', "TRUNCATE"),
        (Privileges::REFERENCES, 'x', "REFERENCES"),
        (Privileges::TRIGGER, 't', "TRIGGER"),
        (Privileges::EXECUTE, 'X', "EXECUTE"),
        (Privileges::USAGE, 'U', "USAGE"),
        (Privileges::CREATE, 'C', "CREATE"),
        (Privileges::TEMPORARY, 'T', "TEMPORARY"),
        (Privileges::CONNECT, 'c', "CONNECT"),
    ];

    /// The privilege that a word names.
    #[must_use]
    pub fn named(word: &str) -> Option<Privileges> {
        if word.eq_ignore_ascii_case("temp") {
            return Some(Privileges::TEMPORARY);
        }
        let found = Privileges::ALL.iter().find(|(.., name)| name.eq_ignore_ascii_case(word));
        found.map(|(privilege, ..)| *privilege)
    }

    /// The words of those that it holds.
    pub fn words(self) -> impl Iterator<Item = (Privileges, &'static str)> {
        let all = Privileges::ALL.into_iter();
        all.filter(move |(one, ..)| self.has(*one)).map(|(one, _, word)| (one, word))
    }

    #[must_use]
    pub const fn has(self, all_of: Privileges) -> bool {
        self.0 & all_of.0 == all_of.0
    }

    #[must_use]
    pub const fn meets(self, any_of: Privileges) -> bool {
        self.0 & any_of.0 != 0
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn with(self, more: Privileges) -> Privileges {
        Privileges(self.0 | more.0)
    }

    #[must_use]
    pub const fn without(self, less: Privileges) -> Privileges {
        Privileges(self.0 & !less.0)
    }

    #[must_use]
    pub const fn and(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }
}

/// What privileges are on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AclKind {
    Relation,
    Column,
    Sequence,
    Schema,
    Database,
    Function,
    Type,
}

impl AclKind {
    /// The letter, as in `pg_default_acl`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            AclKind::Relation => "r",
            AclKind::Column => "c",
            AclKind::Sequence => "S",
            AclKind::Schema => "n",
            AclKind::Database => "d",
            AclKind::Function => "f",
            AclKind::Type => "T",
        }
    }

    /// Inverse of [`AclKind::code`].
    #[must_use]
    pub fn from_code(code: &str) -> Option<AclKind> {
        use AclKind::{Column, Database, Function, Relation, Schema, Sequence, Type};
        let all = [Relation, Column, Sequence, Schema, Database, Function, Type];
        all.into_iter().find(|kind| kind.code() == code)
    }

    /// All that there is to grant.
    #[must_use]
    pub const fn all(self) -> Privileges {
        use Privileges as P;
        let read_write = P::INSERT.with(P::SELECT).with(P::UPDATE).with(P::REFERENCES);
        match self {
            AclKind::Relation => read_write.with(P::DELETE).with(P::TRUNCATE).with(P::TRIGGER),
            AclKind::Column => read_write,
            AclKind::Sequence => P::USAGE.with(P::SELECT).with(P::UPDATE),
            AclKind::Schema => P::USAGE.with(P::CREATE),
            AclKind::Database => P::CREATE.with(P::TEMPORARY).with(P::CONNECT),
            AclKind::Function => P::EXECUTE,
            AclKind::Type => P::USAGE,
        }
    }

    /// What everybody has unless it is said otherwise.
    #[must_use]
    pub const fn everybodys(self) -> Privileges {
        match self {
            AclKind::Database => Privileges::TEMPORARY.with(Privileges::CONNECT),
            AclKind::Function => Privileges::EXECUTE,
            AclKind::Type => Privileges::USAGE,
            AclKind::Relation | AclKind::Column | AclKind::Sequence | AclKind::Schema => {
                Privileges::NONE
            }
        }
    }
}

/// What one role has been granted by another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AclItem {
    /// [`EVERYBODY`]: PUBLIC.
    pub grantee: ObjId,
    pub grantor: ObjId,
    pub privileges: Privileges,
    /// Those of `privileges` that the grantee may grant.
    pub options: Privileges,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acl(pub Vec<AclItem>);

/// Others hold privileges by the option that shall be taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DependentPrivileges;

impl Acl {
    /// What counts for an object without a list of its own.
    #[must_use]
    pub fn default_of(kind: AclKind, owner: ObjId) -> Acl {
        let mut items = Vec::new();
        let mut add = |grantee, privileges: Privileges| {
            if !privileges.is_empty() {
                let options = Privileges::NONE;
                items.push(AclItem { grantee, grantor: owner, privileges, options });
            }
        };
        add(EVERYBODY, kind.everybodys());
        if kind != AclKind::Column {
            add(owner, kind.all());
        }
        Acl(items)
    }

    /// Adds privileges.
    pub fn grant(
        &mut self,
        grantee: ObjId,
        grantor: ObjId,
        privileges: Privileges,
        options: Privileges,
    ) {
        let same = |item: &&mut AclItem| item.grantee == grantee && item.grantor == grantor;
        match self.0.iter_mut().find(same) {
            Some(item) => {
                item.privileges = item.privileges.with(privileges);
                item.options = item.options.with(options);
            }
            None => self.0.push(AclItem { grantee, grantor, privileges, options }),
        }
    }

    /// Takes privileges back, or the option alone. What the grantee has granted by an option that
    /// it has no more goes with `cascade`; it is an error without.
    ///
    /// # Errors
    /// [`DependentPrivileges`].
    pub fn revoke(
        &mut self,
        (grantee, grantor): (ObjId, ObjId),
        privileges: Privileges,
        option_only: bool,
        cascade: bool,
        owner: ObjId,
    ) -> Result<(), DependentPrivileges> {
        let same = |item: &&mut AclItem| item.grantee == grantee && item.grantor == grantor;
        let Some(item) = self.0.iter_mut().find(same) else { return Ok(()) };
        let had = item.options;
        if !option_only {
            item.privileges = item.privileges.without(privileges);
        }
        item.options = item.options.without(privileges);
        self.0.retain(|item| !item.privileges.is_empty());
        // The owner's options do not come from a list.
        if grantee == owner {
            return Ok(());
        }
        let lost = had.and(privileges).without(self.options_of(&[grantee], owner));
        if lost.is_empty() {
            return Ok(());
        }
        let granted: Vec<AclItem> =
            self.0.iter().copied().filter(|i| i.grantor == grantee).collect();
        for item in granted {
            let gone = item.privileges.and(lost);
            if gone.is_empty() {
                continue;
            }
            if !cascade {
                return Err(DependentPrivileges);
            }
            self.revoke((item.grantee, item.grantor), gone, false, true, owner)?;
        }
        Ok(())
    }

    /// What roles have together, everybody's included.
    #[must_use]
    pub fn privileges_of(&self, roles: &[ObjId]) -> Privileges {
        let own = |item: &&AclItem| item.grantee == EVERYBODY || roles.contains(&item.grantee);
        let all = self.0.iter().filter(own);
        all.fold(Privileges::NONE, |sum, item| sum.with(item.privileges))
    }

    /// What roles may grant. The owner, who may grant everything, is not in the list for it.
    #[must_use]
    pub fn options_of(&self, roles: &[ObjId], owner: ObjId) -> Privileges {
        if roles.contains(&owner) {
            return Privileges(u16::MAX);
        }
        let all = self.0.iter().filter(|item| roles.contains(&item.grantee));
        all.fold(Privileges::NONE, |sum, item| sum.with(item.options))
    }

    /// The list once the object belongs to another role.
    #[must_use]
    pub fn with_owner(&self, old: ObjId, new: ObjId) -> Acl {
        let moved = |role: ObjId| if role == old { new } else { role };
        let mut out = Acl::default();
        for item in &self.0 {
            let (grantee, grantor) = (moved(item.grantee), moved(item.grantor));
            out.grant(grantee, grantor, item.privileges, item.options);
        }
        out
    }

    /// Whether a role is in it, as the one who has or the one who gave.
    #[must_use]
    pub fn names(&self, role: ObjId) -> bool {
        self.0.iter().any(|item| item.grantee == role || item.grantor == role)
    }

    /// Without what a role has been granted.
    pub fn forget(&mut self, role: ObjId) {
        self.0.retain(|item| item.grantee != role && item.grantor != role);
    }

    /// Inverse of `to_string`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Acl> {
        let items = text.split(',').filter(|item| !item.is_empty());
        items.map(parse_item).collect::<Option<Vec<_>>>().map(Acl)
    }
}

fn parse_item(text: &str) -> Option<AclItem> {
    let (grantee, rest) = text.split_once('=')?;
    let (letters, grantor) = rest.split_once('/')?;
    let role = |text: &str| text.parse().ok().map(ObjId);
    let (mut privileges, mut options, mut last) =
        (Privileges::NONE, Privileges::NONE, Privileges::NONE);
    for letter in letters.chars() {
        if letter == '*' {
            options = options.with(last);
            continue;
        }
        last = Privileges::ALL.iter().find(|(_, known, _)| *known == letter)?.0;
        privileges = privileges.with(last);
    }
    Some(AclItem { grantee: role(grantee)?, grantor: role(grantor)?, privileges, options })
}

/// Letters of privileges, a star behind those that may be granted.
#[must_use]
pub fn letters(privileges: Privileges, options: Privileges) -> String {
    let mut out = String::new();
    for (one, letter, _) in Privileges::ALL {
        if privileges.has(one) {
            out.push(letter);
        }
        if options.has(one) {
            out.push('*');
        }
    }
    out
}

/// As the dictionary keeps it: PostgreSQL's form with numbers for roles.
impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let letters = letters(item.privileges, item.options);
            write!(f, "{comma}{}={letters}/{}", item.grantee.0, item.grantor.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: ObjId = ObjId(10);
    const ANN: ObjId = ObjId(16_400);
    const BOB: ObjId = ObjId(16_401);

    #[test]
    fn a_list_is_read_back() {
        let mut acl = Acl::default_of(AclKind::Relation, OWNER);
        acl.grant(ANN, OWNER, Privileges::SELECT.with(Privileges::UPDATE), Privileges::UPDATE);
        acl.grant(EVERYBODY, OWNER, Privileges::SELECT, Privileges::NONE);
        let text = acl.to_string();
        assert_eq!(text, "10=arwdDxt/10,16400=rw*/10,0=r/10");
        assert_eq!(Acl::parse(&text), Some(acl));
        assert_eq!(Acl::parse(""), Some(Acl::default()));
        for broken in ["x", "1=r", "1=q/2", "a=r/2"] {
            assert_eq!(Acl::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn what_depends_on_an_option_goes_with_it_or_stays_both() {
        let mut acl = Acl::default_of(AclKind::Relation, OWNER);
        acl.grant(ANN, OWNER, Privileges::SELECT, Privileges::SELECT);
        acl.grant(BOB, ANN, Privileges::SELECT, Privileges::NONE);
        let mut kept = acl.clone();
        let refused = kept.revoke((ANN, OWNER), Privileges::SELECT, true, false, OWNER);
        assert_eq!(refused, Err(DependentPrivileges));
        assert_eq!(acl.revoke((ANN, OWNER), Privileges::SELECT, false, true, OWNER), Ok(()));
        assert_eq!(acl, Acl::default_of(AclKind::Relation, OWNER));
    }

    #[test]
    fn everybody_has_what_is_granted_to_public() {
        let mut acl = Acl::default_of(AclKind::Schema, OWNER);
        assert!(acl.privileges_of(&[ANN]).is_empty());
        acl.grant(EVERYBODY, OWNER, Privileges::USAGE, Privileges::NONE);
        assert!(acl.privileges_of(&[ANN]).has(Privileges::USAGE));
        assert!(acl.options_of(&[ANN], OWNER).is_empty());
        assert!(acl.options_of(&[ANN, OWNER], OWNER).has(Privileges::CREATE));
        let moved = acl.with_owner(OWNER, BOB);
        assert_eq!(moved.to_string(), "16401=UC/16401,0=U/16401");
    }
}
