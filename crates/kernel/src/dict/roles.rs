//! Roles, who is a member of which, what new objects get by default, and the database's own rights:
//! one definition with one version, since they decide together who may do what.
//!
//! Plain values. Roles that there are in every database are among them, without rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::ObjId;

use super::acl::{Acl, AclKind};
use super::def::UserDef;
use super::fixed::{DATABASE_OWNER_ROLE, MONITOR, PREDEFINED_ROLES, SUPERUSER_OBJ};
use super::store::Record;
use crate::error::Result;

/// One role in another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberDef {
    pub role: ObjId,
    pub member: ObjId,
    pub grantor: ObjId,
    /// The member may make others members.
    pub admin: bool,
}

/// The rights that objects get when a role makes them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefaultAcl {
    pub role: ObjId,
    /// In this schema, beside what holds everywhere; `None`: everywhere.
    pub schema: Option<ObjId>,
    pub kind: AclKind,
    pub acl: Acl,
}

pub(super) fn member_of(row: &Record) -> Result<MemberDef> {
    let (role, member) = (row.obj(0)?, row.obj(1)?);
    Ok(MemberDef { role, member, grantor: row.obj(2)?, admin: row.bool(3)? })
}

pub(super) fn default_of(row: &Record) -> Result<DefaultAcl> {
    let kind = AclKind::from_code(row.text(2)?).ok_or_else(|| row.unknown("kind of object"))?;
    let acl = Acl::parse(row.text(3)?).ok_or_else(|| row.unknown("list of access rights"))?;
    let schema = Some(row.obj(1)?).filter(|schema| schema.0 != 0);
    Ok(DefaultAcl { role: row.obj(0)?, schema, kind, acl })
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Roles {
    /// In the order of their names.
    pub all: Vec<Arc<UserDef>>,
    by_name: BTreeMap<String, Arc<UserDef>>,
    by_obj: BTreeMap<ObjId, Arc<UserDef>>,
    pub members: Vec<MemberDef>,
    pub defaults: Vec<DefaultAcl>,
    /// Who the database belongs to.
    pub owner: ObjId,
    /// Who may do what with the database; `None`: what databases give by default.
    pub acl: Option<Acl>,
    pub version: u64,
}

impl Roles {
    /// `props`: version, the database's owner and its list, as they are kept. `None`: they are not
    /// what they should be.
    pub(super) fn new(
        users: Vec<UserDef>,
        mut members: Vec<MemberDef>,
        mut defaults: Vec<DefaultAcl>,
        props: (&str, &str, &str),
    ) -> Option<Roles> {
        let own = PREDEFINED_ROLES.iter().map(|(obj, name)| UserDef::new(*obj, name));
        let mut all: Vec<Arc<UserDef>> = users.into_iter().chain(own).map(Arc::new).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let (monitor, parts) = MONITOR;
        let grantor = SUPERUSER_OBJ;
        let own = parts.map(|role| MemberDef { role, member: monitor, grantor, admin: false });
        members.extend(own);
        members.sort_by_key(|one| (one.role, one.member));
        defaults.sort_by_key(|one| (one.role, one.schema, one.kind));
        let (version, owner, acl) = props;
        let acl = Some(acl).filter(|text| !text.is_empty());
        Some(Roles {
            by_name: all.iter().map(|user| (user.name.clone(), Arc::clone(user))).collect(),
            by_obj: all.iter().map(|user| (user.obj, Arc::clone(user))).collect(),
            all,
            members,
            defaults,
            owner: ObjId(owner.parse().ok()?),
            acl: match acl {
                Some(text) => Some(Acl::parse(text)?),
                None => None,
            },
            version: version.parse().ok()?,
        })
    }

    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<UserDef>> {
        self.by_name.get(name)
    }

    #[must_use]
    pub fn of(&self, obj: ObjId) -> Option<&Arc<UserDef>> {
        self.by_obj.get(&obj)
    }

    /// What a role is called; one that is gone goes by its number.
    #[must_use]
    pub fn name(&self, obj: ObjId) -> String {
        self.of(obj).map_or_else(|| obj.0.to_string(), |user| user.name.clone())
    }

    #[must_use]
    pub fn is_superuser(&self, role: ObjId) -> bool {
        self.of(role).is_some_and(|user| user.superuser)
    }

    /// The role and all those that it is a member of, directly or not. `inherited`: only those
    /// whose privileges it has without SET ROLE.
    #[must_use]
    pub fn above(&self, role: ObjId, inherited: bool) -> Vec<ObjId> {
        let mut found = vec![role];
        let mut at = 0;
        while let Some(member) = found.get(at).copied() {
            at += 1;
            if inherited && !self.of(member).is_some_and(|user| user.inherit) {
                continue;
            }
            let mut add = |role| {
                if !found.contains(&role) {
                    found.push(role);
                }
            };
            let first = self.members.iter().filter(|one| one.member == member);
            first.for_each(|one| add(one.role));
            if member == self.owner {
                add(DATABASE_OWNER_ROLE);
            }
        }
        found
    }

    /// Whether `role` is `of` or a member of it, directly or not. Superusers are members of all.
    #[must_use]
    pub fn is_member(&self, role: ObjId, of: ObjId) -> bool {
        role == of || self.is_superuser(role) || self.above(role, false).contains(&of)
    }

    /// Whether `role` may make others members of `of`.
    #[must_use]
    pub fn is_admin(&self, role: ObjId, of: ObjId) -> bool {
        if self.is_superuser(role) {
            return true;
        }
        let above = self.above(role, false);
        self.members.iter().any(|one| one.role == of && one.admin && above.contains(&one.member))
    }

    /// The rights of something that `role` makes in `schema`; `None`: its kind's own.
    #[must_use]
    pub fn acl_of_new(&self, role: ObjId, schema: Option<ObjId>, kind: AclKind) -> Option<Acl> {
        let of = |schema: Option<ObjId>| {
            let mut all = self.defaults.iter();
            all.find(|one| one.role == role && one.schema == schema && one.kind == kind)
        };
        let (everywhere, here) = (of(None), schema.and_then(|schema| of(Some(schema))));
        if everywhere.is_none() && here.is_none() {
            return None;
        }
        let own = Acl::default_of(kind, role);
        let mut acl = everywhere.map_or_else(|| own.clone(), |one| one.acl.clone());
        for item in here.iter().flat_map(|one| &one.acl.0) {
            acl.grant(item.grantee, item.grantor, item.privileges, item.options);
        }
        (acl != own).then_some(acl)
    }
}
