//! Rights in the catalog: `pg_auth_members`, `pg_default_acl`, and what `information_schema` tells
//! of privileges and roles.
//!
//! What it promises: what is granted is shown as it is enforced. What it must never do: show what
//! the standard keeps from a role that has no part in it.

use super::Catalog;
use super::rows::Shape::{Bool, Char, Int4, Name, Oid, Text};
use super::rows::{Rows, TEXTS, int, list, opt_text, text};
use kernel::dict::{Acl, AclItem, AclKind, EVERYBODY, Privileges};
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

/// A list of rights as a value.
pub(super) fn acl_value(catalog: &Catalog, acl: Option<&Acl>) -> Value {
    acl.map_or(Value::Null, |acl| list(&crate::access::view::items(acl, &catalog.roles)))
}

pub(super) fn members(catalog: &Catalog) -> Rows {
    let mut rows =
        Rows::new(&[("roleid", Oid), ("member", Oid), ("grantor", Oid), ("admin_option", Bool)]);
    for one in &catalog.roles.members {
        rows.push(vec![
            int(one.role.0),
            int(one.member.0),
            int(one.grantor.0),
            Value::Bool(one.admin),
        ]);
    }
    rows
}

pub(super) fn defaults(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("defaclrole", Oid),
        ("defaclnamespace", Oid),
        ("defaclobjtype", Char),
        ("defaclacl", TEXTS),
    ]);
    for (i, one) in catalog.roles.defaults.iter().enumerate() {
        rows.push(vec![
            int(14_000 + i),
            int(one.role.0),
            int(one.schema.map_or(0, |schema| schema.0)),
            text(one.kind.code()),
            acl_value(catalog, Some(&one.acl)),
        ]);
    }
    rows
}

/// Roles that the current one stands for.
fn enabled(catalog: &Catalog) -> Vec<block::ObjId> {
    match catalog.roles.is_superuser(catalog.role) {
        true => catalog.roles.all.iter().map(|user| user.obj).collect(),
        false => catalog.roles.above(catalog.role, true),
    }
}

pub(super) fn enabled_roles(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[("role_name", Name)]);
    for role in enabled(catalog) {
        rows.push(vec![text(catalog.roles.name(role))]);
    }
    rows
}

pub(super) fn applicable_roles(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[("grantee", Name), ("role_name", Name), ("is_grantable", Text)]);
    let enabled = enabled(catalog);
    for one in catalog.roles.members.iter().filter(|one| enabled.contains(&one.member)) {
        rows.push(vec![
            text(catalog.roles.name(one.member)),
            text(catalog.roles.name(one.role)),
            yes(one.admin),
        ]);
    }
    rows
}

fn yes(is: bool) -> Value {
    text(if is { "YES" } else { "NO" })
}

fn role_name(catalog: &Catalog, role: block::ObjId) -> Value {
    match role {
        EVERYBODY => text("PUBLIC"),
        role => text(catalog.roles.name(role)),
    }
}

/// Which entries of a list are shown: those that the role has a part in.
struct Seen<'a> {
    enabled: Vec<block::ObjId>,
    /// Also those that everybody has.
    public: bool,
    catalog: &'a Catalog,
}

impl Seen<'_> {
    fn entries(&self, kind: AclKind, owner: block::ObjId, acl: Option<&Acl>) -> Vec<AclItem> {
        let all = acl.cloned().unwrap_or_else(|| Acl::default_of(kind, owner)).0;
        let shown = |item: &AclItem| {
            self.enabled.contains(&item.grantee)
                || self.enabled.contains(&item.grantor)
                || (self.public && item.grantee == EVERYBODY)
        };
        all.into_iter().filter(shown).collect()
    }

    fn grantable(&self, item: &AclItem, owner: block::ObjId, one: Privileges) -> Value {
        yes(item.options.has(one) || self.catalog.roles.above(item.grantee, true).contains(&owner))
    }
}

fn seen(catalog: &Catalog, public: bool) -> Seen<'_> {
    Seen { enabled: enabled(catalog), public, catalog }
}

/// `table_privileges`, and `role_table_grants` without what everybody has.
pub(super) fn table_privileges(catalog: &Catalog, public: bool) -> Rows {
    let mut rows = Rows::new(&[
        ("grantor", Name),
        ("grantee", Name),
        ("table_catalog", Name),
        ("table_schema", Name),
        ("table_name", Name),
        ("privilege_type", Text),
        ("is_grantable", Text),
        ("with_hierarchy", Text),
    ]);
    let seen = seen(catalog, public);
    for def in catalog.relations() {
        for item in seen.entries(AclKind::Relation, def.owner, def.acl.as_ref()) {
            for (one, word) in item.privileges.words() {
                rows.push(vec![
                    role_name(catalog, item.grantor),
                    role_name(catalog, item.grantee),
                    text(crate::DATABASE),
                    text(def.schema.as_str()),
                    text(def.name.as_str()),
                    text(word),
                    seen.grantable(&item, def.owner, one),
                    yes(one == Privileges::SELECT),
                ]);
            }
        }
    }
    rows
}

/// `column_privileges`, and `role_column_grants` without what everybody has.
pub(super) fn column_privileges(catalog: &Catalog, public: bool) -> Rows {
    let mut rows = Rows::new(&[
        ("grantor", Name),
        ("grantee", Name),
        ("table_catalog", Name),
        ("table_schema", Name),
        ("table_name", Name),
        ("column_name", Name),
        ("privilege_type", Text),
        ("is_grantable", Text),
    ]);
    let seen = seen(catalog, public);
    for def in catalog.relations() {
        let whole = seen.entries(AclKind::Relation, def.owner, def.acl.as_ref());
        for column in &def.columns {
            let own = column.acl.as_ref();
            let own = own.map(|acl| seen.entries(AclKind::Column, def.owner, Some(acl)));
            for item in whole.iter().chain(own.iter().flatten()) {
                for (one, word) in item.privileges.and(AclKind::Column.all()).words() {
                    rows.push(vec![
                        role_name(catalog, item.grantor),
                        role_name(catalog, item.grantee),
                        text(crate::DATABASE),
                        text(def.schema.as_str()),
                        text(def.name.as_str()),
                        text(column.name.as_str()),
                        text(word),
                        seen.grantable(item, def.owner, one),
                    ]);
                }
            }
        }
    }
    rows
}

/// `usage_privileges`, and `role_usage_grants` without what everybody has: of sequences.
pub(super) fn usage_privileges(catalog: &Catalog, public: bool) -> Rows {
    let mut rows = Rows::new(&[
        ("grantor", Name),
        ("grantee", Name),
        ("object_catalog", Name),
        ("object_schema", Name),
        ("object_name", Name),
        ("object_type", Text),
        ("privilege_type", Text),
        ("is_grantable", Text),
    ]);
    let seen = seen(catalog, public);
    for def in &catalog.sequences {
        for item in seen.entries(AclKind::Sequence, def.owner, def.acl.as_ref()) {
            if !item.privileges.has(Privileges::USAGE) {
                continue;
            }
            rows.push(vec![
                role_name(catalog, item.grantor),
                role_name(catalog, item.grantee),
                text(crate::DATABASE),
                text(def.schema.as_str()),
                text(def.name.as_str()),
                text("SEQUENCE"),
                text("USAGE"),
                seen.grantable(&item, def.owner, Privileges::USAGE),
            ]);
        }
    }
    rows
}

/// `pg_hba_file_rules`: the file as it is now, also where a line of it is wrong.
pub(super) fn rules(instance: &Arc<Instance>) -> Option<Rows> {
    let mut rows = Rows::new(&[
        ("line_number", Int4),
        ("type", Text),
        ("database", TEXTS),
        ("user_name", TEXTS),
        ("address", Text),
        ("netmask", Text),
        ("auth_method", Text),
        ("options", TEXTS),
        ("error", Text),
    ]);
    let (rules, wrong) = crate::database::Database::of(instance).ok()?.hba.as_it_is();
    let number = |line: usize| Value::Int4(i32::try_from(line).unwrap_or(i32::MAX));
    let mut all: Vec<(usize, Vec<Value>)> = Vec::new();
    for rule in rules {
        let ((databases, users), (address, mask)) = (rule.names(), rule.address());
        let row = vec![
            number(rule.line_no),
            text(rule.kind.word()),
            list(&databases),
            list(&users),
            opt_text(address.as_deref()),
            opt_text(mask.as_deref()),
            text(rule.method.word()),
            Value::Null,
            Value::Null,
        ];
        all.push((rule.line_no, row));
    }
    for one in wrong {
        let mut row = vec![Value::Null; 9];
        (row[0], row[8]) = (number(one.line_no), text(one.why));
        all.push((one.line_no, row));
    }
    all.sort_by_key(|(line, _)| *line);
    all.into_iter().for_each(|(_, row)| rows.push(row));
    Some(rows)
}
