#![doc = include_str!("README.md")]

mod acl;
mod bootstrap;
mod cache;
mod condition;
mod ddl;
mod ddl_alter;
mod ddl_comment;
mod ddl_foreign;
mod ddl_index;
mod ddl_other;
mod ddl_rights;
mod ddl_roles;
mod ddl_routine;
mod ddl_schema;
mod ddl_type;
mod ddl_view;
mod def;
mod expression;
mod fixed;
mod ids;
mod index;
mod index_statistics;
mod lists;
mod locks;
mod lookup;
mod names;
pub(crate) mod offline;
mod records;
mod roles;
mod routine;
mod segments;
mod state;
mod statistics;
mod store;
mod times;

#[cfg(test)]
mod tests;

pub use crate::row::KeyOrder;
pub use acl::{Acl, AclItem, AclKind, DependentPrivileges, EVERYBODY, Privileges, letters};
pub use bootstrap::{bootstrap, open};
pub(crate) use cache::RightMessage;
pub use cache::RowCacheStat;
pub use condition::{Comparison, Condition};
pub use ddl::{COLUMNS_MAX, create_table, drop_table, truncate_table};
pub use ddl_alter::{
    alter_columns, lock_definition, rename_index, rename_table, set_check, set_comment,
    set_index_expressions,
};
pub use ddl_comment::{CommentDef, Described, comment_on, comments};
pub use ddl_foreign::{
    add_foreign_key, drop_foreign_key, rename_foreign_key, validate_foreign_key,
};
pub use ddl_index::{INDEX_COLUMNS_MAX, create_index, drop_constraint, drop_index};
pub use ddl_other::{
    alter_sequence, create_sequence, drop_sequence, lock_sequence, set_sequence_table,
};
pub use ddl_rights::{AclTarget, change_acl, change_owner, change_schema_owner};
pub use ddl_roles::{
    RoleUse, alter_user, change_member, create_user, drop_user, role_uses, set_password,
};
pub use ddl_routine::{
    NewRoutine, RoutineChange, RoutinePlace, alter_routine, create_routine, drop_routine,
    lock_routine, routines_of_type,
};
pub use ddl_schema::{
    create_schema, drop_all_in, drop_left, drop_schema, left_temporary, move_sequence,
    rename_schema, set_schema,
};
pub use ddl_type::{TypeChange, alter_type, create_type, drop_type, lock_type_users, type_users};
pub use ddl_view::{create_materialized, create_view, drop_view, replace_view, set_materialized};
pub use def::{
    AlteredColumn, Changes, CheckDef, CheckOption, ColumnDef, Derived, ForeignKeyDef, Generated,
    KeyAction, Materialized, NewIndex, NewSequence, NewTable, NewView, ObjectDef, ObjectKind,
    ReferenceDef, SchemaDef, Schemas, SequenceDef, TableDef, TypeDef, Types, Use, UserDef, ViewDef,
};
pub use expression::{Evaluator, KEY_EXPR, KeyExpr, KeyExpressions, set_key_expressions};
pub use fixed::{
    BOOTSTRAP_OBJ, CHECKPOINT_ROLE, DATABASE_OWNER_ROLE, PREDEFINED_ROLES, PUBLIC, PUBLIC_OBJ,
    READ_ALL_DATA, RESERVED_SCHEMAS, ROLES_OBJ, ROUTINES_OBJ, SCHEMAS_OBJ, SIGNAL_ROLE, SUPERUSER,
    SUPERUSER_OBJ, SYS, TEMP_PREFIX, TYPES_OBJ, USER_OBJ_MIN, WRITE_ALL_DATA,
};
pub use index::{Included, IndexDef, IndexKind};
pub use index_statistics::{IndexStats, index_statistics};
pub use lists::{roles, routines, schemas, types};
pub use locks::{ObjectLocks, ObjectMode, OneInstance};
pub use lookup::{
    confirm, dependents, is_current, object, objects, row_cache_stats, sequence, sequences, table,
    table_by_obj, tables, user, users, views,
};
pub(crate) use lookup::{count_right, sequence_latches};
pub use names::NAME_BYTES_MAX;
pub use roles::{DefaultAcl, MemberDef, Roles};
pub use routine::{
    ArgumentDef, ArgumentMode, RoutineBody, RoutineDef, RoutineResult, Routines, Volatility,
};
pub use segments::free_orphans;
pub use state::{Dict, changed_tables, forget_changes, invalidate, invalidate_all};
pub use statistics::{
    ColumnStats, ExprStats, NewStats, TableStats, all_statistics, set_statistics, statistics,
};
pub use times::Times;

pub(crate) use fixed::Fixed;
pub(crate) use state::{autonomous, finish, newest, of};
pub(crate) use store::{Record, change, obj_key, one};
