//! Statements about roles and privileges, as they were read.

use crate::pl::{RoutineKind, RoutineName};

/// A role in a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleName {
    Named(String),
    Current,
    Session,
    Public,
}

/// One privilege of a GRANT, or a role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// Empty: ALL.
    pub name: String,
    pub columns: Vec<String>,
}

/// Kinds of objects that GRANT names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectClass {
    /// Tables, views, and sequences where no kind is said.
    Relation,
    Sequence,
    Schema,
    Database,
    Function,
    Type,
    Other(&'static str),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrantTarget {
    pub class: ObjectClass,
    pub names: Vec<(Option<String>, String)>,
    /// Functions and procedures.
    pub routines: Vec<RoutineName>,
    pub kind: RoutineKind,
    /// All of the class in these schemas.
    pub in_schemas: Vec<String>,
}

impl GrantTarget {
    /// Nothing of the class yet.
    pub(super) fn of(class: ObjectClass) -> GrantTarget {
        GrantTarget {
            class,
            names: Vec::new(),
            routines: Vec::new(),
            kind: RoutineKind::Either,
            in_schemas: Vec::new(),
        }
    }
}

/// GRANT or REVOKE of privileges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrantSpec {
    pub grant: bool,
    pub items: Vec<Item>,
    pub target: GrantTarget,
    pub grantees: Vec<RoleName>,
    /// WITH GRANT OPTION; of REVOKE: the option alone.
    pub option: bool,
    pub granted_by: Option<RoleName>,
    pub cascade: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleOption {
    Superuser(bool),
    CreateDb(bool),
    CreateRole(bool),
    Inherit(bool),
    Login(bool),
    Replication(bool),
    BypassRls(bool),
    Connections(i64),
    /// `None`: PASSWORD NULL.
    Password(Option<String>),
    ValidUntil(String),
    InRole(Vec<RoleName>),
    Members(Vec<RoleName>),
    Admin(Vec<RoleName>),
    /// A schema of the role's name for what it makes, as every user of the field has.
    OwnSchema,
}

/// ALTER ROLE .. SET.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleSetting {
    Set(String, String),
    FromCurrent(String),
    Reset(String),
    ResetAll,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Access {
    Grant(GrantSpec),
    Members {
        grant: bool,
        roles: Vec<RoleName>,
        members: Vec<RoleName>,
        /// WITH ADMIN OPTION; of REVOKE: the option alone.
        admin: bool,
        granted_by: Option<RoleName>,
        cascade: bool,
    },
    Defaults {
        roles: Vec<RoleName>,
        schemas: Vec<String>,
        spec: GrantSpec,
    },
    CreateRole {
        login: bool,
        name: RoleName,
        if_not_exists: bool,
        options: Vec<RoleOption>,
    },
    AlterRole {
        name: RoleName,
        options: Vec<RoleOption>,
    },
    RenameRole {
        name: RoleName,
        to: String,
    },
    /// `None`: of all roles.
    RoleSetting {
        role: Option<RoleName>,
        setting: RoleSetting,
    },
    DropRoles {
        names: Vec<RoleName>,
        if_exists: bool,
        /// DROP USER.
        users: bool,
        /// With all that they own.
        cascade: bool,
    },
    Reassign {
        from: Vec<RoleName>,
        to: RoleName,
    },
    DropOwned {
        roles: Vec<RoleName>,
        cascade: bool,
    },
    Owner {
        class: &'static str,
        if_exists: bool,
        name: (Option<String>, String),
        to: RoleName,
    },
    SetRole {
        name: Option<String>,
        local: bool,
    },
    SetSession {
        name: Option<String>,
        local: bool,
    },
}

impl Access {
    /// Whether it belongs to the session alone: nothing in the database changes.
    pub(crate) fn is_setting(&self) -> bool {
        matches!(self, Access::SetRole { .. } | Access::SetSession { .. })
    }
}
