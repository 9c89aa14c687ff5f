//! Roles, and who may do what: with objects, and with the database.
//!
//! What it promises: what is granted is shown as it is enforced, also what everybody has without a
//! GRANT. What it must never do: tell who has a password, but to a superuser.

use super::registry::{Column, Make, SessionView, columns, views};
use super::{shown_name, wall};
use crate::Result;
use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use crate::session::Session;
use block::ObjId;
use kernel::dict::{Acl, AclKind, EVERYBODY, MemberDef, TableDef, USER_OBJ_MIN, UserDef};
use kernel::row::Value;
use query::datetime::EPOCH_US;
use std::collections::BTreeSet;

/// On what somebody has a privilege, and who.
const ON_TABLE: &[Column] = columns! {
    grantee: Text, "Who has the privilege: a user or a role; `PUBLIC`: everybody.";
    owner: Text, "Schema of the object.";
    table_name: Text, "Name of the object.";
};

/// A privilege on an object.
const ON_OBJECT: &[Column] = columns! {
    grantor: Text, "Who has granted it; of what everybody has by default, the owner.";
    privilege: Text, "`SELECT`, `INSERT`, `UPDATE`, `DELETE`, `TRUNCATE`, `REFERENCES`, `TRIGGER`, \
        `EXECUTE` or `USAGE`.";
    grantable: Text, "`YES`: the grantee may grant it; else `NO`.";
};

views! {
    "dba_users", Make::Session(SessionView::Users), "Who may log on, and whose account is locked." {
        username: Text, "Name.";
        user_id: Int8, "Number.";
        account_status: Text, "`OPEN`; `EXPIRED`: the password counts no more; `LOCKED`: may not \
            log on, or has no password; `EXPIRED & LOCKED`. Users and roles are of one kind here: \
            who may not log on is a locked user with a password, and a role without one. NULL for \
            who is no superuser, who sees no locked users either.";
        expiry_date: Timestamptz, "Until when the password counts; NULL: for ever.";
        default_tablespace: Text, "Where its tables are.";
        temporary_tablespace: Text, "Always NULL: there is none.";
        lock_date: Timestamptz, "Always NULL: nobody notes when it is locked.";
        created: Timestamptz, "When it was made; NULL: before databases noted that.";
        profile: Text, "`DEFAULT`, as in `dba_profiles`.";
        authentication_type: Text, "`PASSWORD`: it has one; else `NONE`. NULL for who is no \
            superuser.";
        oracle_maintained: Text, "`Y`: there is one in every database; else `N`.";
        last_login: Timestamptz, "Always NULL: nobody notes when it logs on.";
    }
    "all_users", Make::Session(SessionView::AllUsers), "The same users, as everybody may know them." {
        username: Text, "Name.";
        user_id: Int8, "Number.";
        created: Timestamptz, "When it was made, as in `dba_users`.";
        oracle_maintained: Text, "`Y`: there is one in every database; else `N`.";
    }
    "user_users", Make::Session(SessionView::UserUsers), "The current user." {
        username: Text, "Name.";
        user_id: Int8, "Number.";
        account_status: Text, "As in `dba_users`.";
        lock_date: Timestamptz, "Always NULL: nobody notes when it is locked.";
        expiry_date: Timestamptz, "Until when the password counts; NULL: for ever.";
        default_tablespace: Text, "Where its tables are.";
        temporary_tablespace: Text, "Always NULL: there is none.";
        created: Timestamptz, "When it was made, as in `dba_users`.";
    }
    "dba_roles", Make::Session(SessionView::Roles), "Roles that nobody logs on as." {
        role: Text, "Name.";
        role_id: Int8, "Number.";
        password_required: Text, "`NO`: who has been granted a role needs no password for it.";
        authentication_type: Text, "`NONE`, for the same reason.";
        oracle_maintained: Text, "`Y`: there is one in every database; else `N`.";
    }
    "dba_role_privs", Make::Session(SessionView::RolePrivs), "Roles that have been granted." {
        grantee: Text, "Who has the role: a user or a role.";
        granted_role: Text, "The role.";
        admin_option: Text, "`YES`: the grantee may grant it; else `NO`.";
    }
    "dba_sys_privs", Make::Session(SessionView::SysPrivs), "What users and roles may do besides \
        what they may do with objects. Superusers may do all of it without being named." {
        grantee: Text, "Who has the privilege: a user or a role; `PUBLIC`: everybody.";
        privilege: Text, "What CREATE ROLE has said: `SUPERUSER`, `CREATEDB`, `CREATEROLE`, \
            `REPLICATION`, `BYPASSRLS`, and for `LOGIN` the field's `CREATE SESSION`; what has \
            been granted on the database: `CONNECT`, `TEMPORARY`, and for `CREATE` what it allows, \
            `CREATE SCHEMA`. To log on takes both `CREATE SESSION` and `CONNECT`.";
        admin_option: Text, "`YES`: the grantee may give it to others; else `NO`.";
    }
    "dba_tab_privs", Make::Session(SessionView::TabPrivs), "Privileges on tables, views, \
        sequences, types and routines, but those that owners have as such." {} + ON_TABLE {}
    + ON_OBJECT {
        type: Text, "`TABLE`, `VIEW`, `MATERIALIZED VIEW`, `SEQUENCE`, `TYPE`, `FUNCTION` or \
            `PROCEDURE`.";
    }
    "user_tab_privs", Make::Session(SessionView::UserTabPrivs), "The same of what the current user \
        has, has granted, or owns." {} + ON_TABLE {} + ON_OBJECT {
        type: Text, "What the object is, as in `dba_tab_privs`.";
    }
    "user_role_privs", Make::Session(SessionView::UserRolePrivs), "Roles that the current user has \
        been granted." {
        username: Text, "The user.";
        granted_role: Text, "The role.";
        admin_option: Text, "`YES`: the user may grant it; else `NO`.";
    }
    "user_sys_privs", Make::Session(SessionView::UserSysPrivs), "What the current user may do, as \
        in `dba_sys_privs`." {
        username: Text, "The user.";
        privilege: Text, "The privilege.";
        admin_option: Text, "`YES`: the user may give it to others; else `NO`.";
    }
    "session_privs", Make::Session(SessionView::SessionPrivs), "What the session may do by itself, \
        by its roles and because everybody may, as in `dba_sys_privs`." {
        privilege: Text, "The privilege.";
    }
    "session_roles", Make::Session(SessionView::SessionRoles), "Roles whose privileges the session \
        has, granted to its user or to one of them." {
        role: Text, "The role.";
    }
    "dba_col_privs", Make::Session(SessionView::ColPrivs), "Privileges on single columns." {
        grantee: Text, "Who has the privilege: a user or a role; `PUBLIC`: everybody.";
        owner: Text, "Schema of the table.";
        table_name: Text, "The table.";
        column_name: Text, "Name of the column.";
    } + ON_OBJECT {}
}

fn yes(yes: bool) -> Value {
    text(if yes { "YES" } else { "NO" })
}

fn role_name(catalog: &Catalog, role: ObjId) -> Value {
    match role {
        EVERYBODY => text("PUBLIC"),
        role => shown_name(&catalog.roles.name(role)),
    }
}

/// Whether it is a user. The dictionary keeps users and roles alike; one that may not log on is a
/// user if somebody has given it a password, which is of no use to a role. `all`: the asker may
/// know of that.
fn is_user(user: &UserDef, all: bool) -> bool {
    user.login || (all && user.verifier.is_some())
}

/// Whether the field would say that it comes with the database.
fn maintained(user: &UserDef) -> Value {
    text(if user.obj.0 < USER_OBJ_MIN { "Y" } else { "N" })
}

/// When it was made.
fn made(user: &UserDef) -> Value {
    user.made_us.map_or(Value::Null, wall)
}

/// Until when the password of a user counts, if that ends.
fn until(user: &UserDef) -> Option<i64> {
    user.valid_until.filter(|until| *until != i64::MAX)
}

/// Whether a user may log on now; `all`: the asker may know who has a password.
fn status(user: &UserDef, now_us: i64, all: bool) -> Value {
    let expired = user.verifier.is_some() && until(user).is_some_and(|until| until < now_us);
    let locked = !user.login || user.verifier.is_none();
    opt_text(all.then_some(match (expired, locked) {
        (false, false) => "OPEN",
        (true, false) => "EXPIRED",
        (false, true) => "LOCKED",
        (true, true) => "EXPIRED & LOCKED",
    }))
}

/// `all`: the asker may know who has a password.
fn users(catalog: &Catalog, now_us: i64, all: bool, rows: &mut Rows) {
    for user in catalog.users.iter().filter(|user| is_user(user, all)) {
        let password = if user.verifier.is_some() { "PASSWORD" } else { "NONE" };
        rows.push(vec![
            shown_name(&user.name),
            int(user.obj.0),
            status(user, now_us, all),
            until(user).map_or(Value::Null, Value::Timestamptz),
            text(super::objects::USERS),
            Value::Null,
            Value::Null,
            made(user),
            text("DEFAULT"),
            opt_text(all.then_some(password)),
            maintained(user),
            Value::Null,
        ]);
    }
}

fn all_users(catalog: &Catalog, all: bool, rows: &mut Rows) {
    for user in catalog.users.iter().filter(|user| is_user(user, all)) {
        let (name, number) = (shown_name(&user.name), int(user.obj.0));
        rows.push(vec![name, number, made(user), maintained(user)]);
    }
}

/// What a user may know of itself.
fn user_users(catalog: &Catalog, now_us: i64, rows: &mut Rows) {
    for user in catalog.users.iter().filter(|user| user.obj == catalog.role) {
        rows.push(vec![
            shown_name(&user.name),
            int(user.obj.0),
            status(user, now_us, true),
            Value::Null,
            until(user).map_or(Value::Null, Value::Timestamptz),
            text(super::objects::USERS),
            Value::Null,
            made(user),
        ]);
    }
}

fn roles(catalog: &Catalog, all: bool, rows: &mut Rows) {
    for role in catalog.users.iter().filter(|user| !is_user(user, all)) {
        rows.push(vec![
            shown_name(&role.name),
            int(role.obj.0),
            text("NO"),
            text("NONE"),
            maintained(role),
        ]);
    }
}

/// `of`: only what this role has been granted.
fn role_privs(catalog: &Catalog, of: Option<ObjId>, rows: &mut Rows) {
    let mine = |member: &&MemberDef| of.is_none_or(|of| member.member == of);
    for member in catalog.roles.members.iter().filter(mine) {
        let name = |obj| {
            let found = catalog.roles.of(obj);
            found.map_or(Value::Null, |role| shown_name(&role.name))
        };
        rows.push(vec![name(member.member), name(member.role), yes(member.admin)]);
    }
}

/// Who has which privilege that is on no object, and whether they may give it to others.
fn sys_privs(catalog: &Catalog, mut add: impl FnMut(ObjId, &'static str, bool)) {
    for user in &catalog.users {
        // As ALTER ROLE lets them: who may make roles gives these three, a superuser all.
        let (gives_some, gives_all) = (user.create_role || user.superuser, user.superuser);
        for (has, privilege, gives) in [
            (user.superuser, "SUPERUSER", gives_all),
            (user.login, "CREATE SESSION", gives_some),
            (user.create_db, "CREATEDB", gives_some),
            (user.create_role, "CREATEROLE", gives_some),
            (user.replication, "REPLICATION", gives_all),
            (user.bypass_rls, "BYPASSRLS", gives_all),
        ] {
            if has {
                add(user.obj, privilege, gives);
            }
        }
    }
    let owner = catalog.roles.owner;
    each(AclKind::Database, owner, catalog.roles.acl.as_ref(), |entry| {
        let word = if entry.word == "CREATE" { "CREATE SCHEMA" } else { entry.word };
        add(entry.grantee, word, entry.grantable);
    });
}

/// What a role may do, by all that it is a member of: a superuser all there is.
fn session_privs(catalog: &Catalog, rows: &mut Rows) {
    let above = catalog.roles.above(catalog.role, true);
    let superuser = catalog.roles.is_superuser(catalog.role);
    let owner = above.contains(&catalog.roles.owner);
    let mut held: BTreeSet<&str> = BTreeSet::new();
    if superuser {
        held.extend(["SUPERUSER", "CREATEDB", "CREATEROLE", "REPLICATION", "BYPASSRLS"]);
    }
    if superuser || owner {
        held.extend(["CONNECT", "TEMPORARY", "CREATE SCHEMA"]);
    }
    sys_privs(catalog, |grantee, word, _| {
        // What CREATE ROLE has said of a role is not inherited.
        let inherited = matches!(word, "CONNECT" | "TEMPORARY" | "CREATE SCHEMA");
        if grantee == EVERYBODY
            || grantee == catalog.role
            || (inherited && above.contains(&grantee))
        {
            held.insert(word);
        }
    });
    held.into_iter().for_each(|word| rows.push(vec![text(word)]));
}

/// One privilege that somebody has.
struct Entry {
    grantee: ObjId,
    grantor: ObjId,
    word: &'static str,
    grantable: bool,
}

/// Each privilege of a list, but the owner's own.
fn each(kind: AclKind, owner: ObjId, acl: Option<&Acl>, mut entry: impl FnMut(Entry)) {
    let default = Acl::default_of(kind, owner);
    let acl = acl.unwrap_or(&default);
    for item in acl.0.iter().filter(|item| item.grantee != owner) {
        for (one, word) in item.privileges.words() {
            let grantable = item.options.has(one);
            entry(Entry { grantee: item.grantee, grantor: item.grantor, word, grantable });
        }
    }
}

/// What an object is, what it is called, and whom it belongs to.
type Of<'a> = (AclKind, &'static str, &'a str, &'a str, ObjId);

/// `of`: only what has to do with this role.
fn tab_privs(catalog: &Catalog, of: Option<ObjId>, rows: &mut Rows) {
    let mut add = |(kind, word, schema, name, owner): Of<'_>, acl: Option<&Acl>| {
        each(kind, owner, acl, |entry| {
            let parts = [entry.grantee, entry.grantor, owner];
            if of.is_some_and(|of| !parts.contains(&of)) {
                return;
            }
            rows.push(vec![
                role_name(catalog, entry.grantee),
                shown_name(schema),
                shown_name(name),
                role_name(catalog, entry.grantor),
                text(entry.word),
                yes(entry.grantable),
                text(word),
            ]);
        });
    };
    for def in catalog.relations() {
        let word = super::dictionary::kind(def);
        add((AclKind::Relation, word, &def.schema, &def.name, def.owner), def.acl.as_ref());
    }
    for def in &catalog.sequences {
        let of = (AclKind::Sequence, "SEQUENCE", &*def.schema, &*def.name, def.owner);
        add(of, def.acl.as_ref());
    }
    for def in &catalog.types.all {
        add((AclKind::Type, "TYPE", &def.schema, &def.name, def.owner), def.acl.as_ref());
    }
    for def in &catalog.routines.all {
        let word = super::code::kind(def);
        add((AclKind::Function, word, &def.schema, &def.name, def.owner), def.acl.as_ref());
    }
}

fn col_privs(catalog: &Catalog, rows: &mut Rows) {
    let of_columns = |def: &TableDef, rows: &mut Rows| {
        for column in &def.columns {
            each(AclKind::Column, def.owner, column.acl.as_ref(), |entry| {
                rows.push(vec![
                    role_name(catalog, entry.grantee),
                    shown_name(&def.schema),
                    shown_name(&def.name),
                    shown_name(&column.name),
                    role_name(catalog, entry.grantor),
                    text(entry.word),
                    yes(entry.grantable),
                ]);
            });
        }
    };
    catalog.relations().for_each(|def| of_columns(def, rows));
}

impl Session {
    /// The rows of one of these views.
    pub(super) async fn rights_view(&mut self, which: SessionView, rows: &mut Rows) -> Result<()> {
        let catalog = self.shown_catalog().await?;
        let all = self.is_superuser().await?;
        let now_us = self.ctx.env.wall_us() - EPOCH_US;
        match which {
            SessionView::Users => users(&catalog, now_us, all, rows),
            SessionView::AllUsers => all_users(&catalog, all, rows),
            SessionView::UserUsers => user_users(&catalog, now_us, rows),
            SessionView::Roles => roles(&catalog, all, rows),
            SessionView::RolePrivs => role_privs(&catalog, None, rows),
            SessionView::UserRolePrivs => role_privs(&catalog, Some(catalog.role), rows),
            SessionView::SysPrivs => sys_privs(&catalog, |grantee, word, gives| {
                rows.push(vec![role_name(&catalog, grantee), text(word), yes(gives)]);
            }),
            SessionView::UserSysPrivs => sys_privs(&catalog, |grantee, word, gives| {
                if grantee == catalog.role {
                    rows.push(vec![role_name(&catalog, grantee), text(word), yes(gives)]);
                }
            }),
            SessionView::SessionPrivs => session_privs(&catalog, rows),
            SessionView::SessionRoles => {
                let above = catalog.roles.above(catalog.role, true);
                let others = above.into_iter().filter(|role| *role != catalog.role);
                others.for_each(|role| rows.push(vec![role_name(&catalog, role)]));
            }
            SessionView::TabPrivs => tab_privs(&catalog, None, rows),
            SessionView::UserTabPrivs => tab_privs(&catalog, Some(catalog.role), rows),
            _ => col_privs(&catalog, rows),
        }
        Ok(())
    }
}
