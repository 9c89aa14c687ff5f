//! The dictionary's own tables: their numbers, columns and indexes.
//!
//! Every release must find the tables of its database, so numbers, column order and types are
//! promises; new columns go to the end and may be NULL, as rows from before have them, new tables
//! get new numbers. What is declared here is all
//! that the bootstrap needs to make and to read them.

use std::sync::Arc;

use block::{Dba, ObjId, Scn};

use super::def::{Changes, ColumnDef, Derived, TableDef};
use super::expression::Evaluator;
use super::index::{Included, IndexDef};
use crate::row::{ColType, TypeKind};

/// The schema of the dictionary's tables.
pub const SYS: &str = "sys";
/// The schema that users get when they name none.
pub const PUBLIC: &str = "public";
/// Its number: PostgreSQL's.
pub const PUBLIC_OBJ: ObjId = ObjId(2200);
/// Stands for the list of all schemas, where versions are compared and rights are asked for.
pub const SCHEMAS_OBJ: ObjId = ObjId(17);
/// Stands for roles, memberships, default privileges and the database's own rights, as
/// [`SCHEMAS_OBJ`] does for schemas.
pub const ROLES_OBJ: ObjId = ObjId(19);
/// Stands for the list of all types, as [`SCHEMAS_OBJ`] does for schemas.
pub const TYPES_OBJ: ObjId = ObjId(33);
/// Stands for the list of all functions and procedures, as [`SCHEMAS_OBJ`] does for schemas.
pub const ROUTINES_OBJ: ObjId = ObjId(52);
/// The row of `props$` with the list's version.
pub(super) const ROUTINES_VERSION: &str = "version of the routines";
/// The row of `props$` with the list's version.
pub(super) const TYPES_VERSION: &str = "version of the types";
/// The rows of `props$` with the roles' version, the database's owner and its access rights.
pub(super) const ROLES_VERSION: &str = "version of the roles";
pub(super) const DATABASE_OWNER: &str = "owner of the database";
pub(super) const DATABASE_ACL: &str = "rights on the database";
/// The role that stands for the owner of the database, whoever that is.
pub const DATABASE_OWNER_ROLE: ObjId = ObjId(6171);
/// Roles that there are in every database, with PostgreSQL's numbers; nobody logs on as one.
pub const PREDEFINED_ROLES: [(ObjId, &str); 12] = [
    (ObjId(3373), "pg_monitor"),
    (ObjId(3374), "pg_read_all_settings"),
    (ObjId(3375), "pg_read_all_stats"),
    (ObjId(3377), "pg_stat_scan_tables"),
    (ObjId(4200), "pg_signal_backend"),
    (ObjId(4544), "pg_checkpoint"),
    (ObjId(4569), "pg_read_server_files"),
    (ObjId(4570), "pg_write_server_files"),
    (ObjId(4571), "pg_execute_server_program"),
    (DATABASE_OWNER_ROLE, "pg_database_owner"),
    (READ_ALL_DATA, "pg_read_all_data"),
    (WRITE_ALL_DATA, "pg_write_all_data"),
];
pub const READ_ALL_DATA: ObjId = ObjId(6181);
pub const WRITE_ALL_DATA: ObjId = ObjId(6182);
pub const CHECKPOINT_ROLE: ObjId = ObjId(4544);
pub const SIGNAL_ROLE: ObjId = ObjId(4200);
/// What `pg_monitor` is a member of.
pub(super) const MONITOR: (ObjId, [ObjId; 3]) =
    (ObjId(3373), [ObjId(3374), ObjId(3375), ObjId(3377)]);
/// The row of `props$` with the list's version.
pub(super) const SCHEMAS_VERSION: &str = "version of the schemas";
/// What the names of the schemas of temporary tables begin with.
pub const TEMP_PREFIX: &str = "pg_temp_";
/// Schemas in which users make no objects.
pub const RESERVED_SCHEMAS: [&str; 3] = [SYS, "pg_catalog", "information_schema"];
/// The user who owns the dictionary.
pub const SUPERUSER: &str = "skein";
pub const SUPERUSER_OBJ: ObjId = ObjId(10);
/// Objects of users are numbered from here; PostgreSQL's own OIDs are all below.
pub const USER_OBJ_MIN: u32 = 16_384;

/// The table that says where the others are, `bootstrap$`; no table tells of it.
pub const BOOTSTRAP_OBJ: ObjId = ObjId(1);

/// Where a fixed segment is; one row of the bootstrap table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub obj: ObjId,
    pub header: Dba,
    /// Root block; [`Dba::NONE`] for a table.
    pub root: Dba,
    pub birth: Scn,
}

/// Columns of the bootstrap table: obj, header, root, birth.
pub(super) const BOOTSTRAP_TYPES: [ColType; 4] = [ColType::new(TypeKind::Int8); 4];

/// An index of a dictionary table. All are unique.
pub(super) struct FixedIndex {
    pub obj: ObjId,
    pub name: &'static str,
    pub columns: &'static [u16],
}

/// A table of the dictionary.
pub(super) struct FixedTable {
    pub obj: ObjId,
    pub name: &'static str,
    /// Name, kind, not null.
    pub columns: &'static [(&'static str, TypeKind, bool)],
    pub indexes: &'static [FixedIndex],
}

/// Names the fixed tables, in the order of [`TABLES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fixed {
    Obj,
    Tab,
    Col,
    Ind,
    Seq,
    User,
    Props,
    Orphan,
    Con,
    Schema,
    View,
    Dep,
    Ref,
    Auth,
    DefaultAcl,
    Type,
    Enum,
    TabStat,
    ColStat,
    Comment,
    Proc,
    Arg,
}

use TypeKind::{Bool, Bytea, Float8, Int4, Int8, Text};

/// All of them. `obj$` by number and by name; `ind$` by number and by table.
pub(super) const TABLES: [FixedTable; 22] = [
    FixedTable {
        obj: ObjId(2),
        name: "obj$",
        columns: &[
            ("obj", Int8, true),
            ("owner", Int8, true),
            ("schema", Text, true),
            ("name", Text, true),
            ("kind", Text, true),
            ("created", Int8, true),
            ("version", Int8, true),
            ("acl", Text, false),
            ("form", Int8, true),
            ("made", Int8, false),
            ("altered", Int8, false),
            ("shaped", Int8, false),
        ],
        indexes: &[
            FixedIndex { obj: ObjId(20), name: "i_obj1", columns: &[0] },
            FixedIndex { obj: ObjId(21), name: "i_obj2", columns: &[2, 3] },
        ],
    },
    FixedTable {
        obj: ObjId(3),
        name: "tab$",
        columns: &[
            ("obj", Int8, true),
            ("header", Int8, true),
            ("birth", Int8, true),
            ("comment", Text, false),
        ],
        indexes: &[FixedIndex { obj: ObjId(22), name: "i_tab1", columns: &[0] }],
    },
    FixedTable {
        obj: ObjId(4),
        name: "col$",
        columns: &[
            ("obj", Int8, true),
            ("position", Int4, true),
            ("name", Text, true),
            ("type", Int4, true),
            ("modifier", Int4, true),
            ("not_null", Bool, true),
            ("default", Text, false),
            ("missing", Bytea, false),
            ("comment", Text, false),
            ("generated", Text, false),
            ("acl", Text, false),
        ],
        indexes: &[FixedIndex { obj: ObjId(23), name: "i_col1", columns: &[0, 1] }],
    },
    FixedTable {
        obj: ObjId(5),
        name: "ind$",
        columns: &[
            ("obj", Int8, true),
            ("table", Int8, true),
            ("columns", Text, true),
            ("unique", Bool, true),
            ("primary", Bool, true),
            ("constraint", Text, false),
            ("header", Int8, true),
            ("root", Int8, true),
            ("birth", Int8, true),
            ("predicate", Bytea, false),
            ("exprs", Bytea, false),
        ],
        indexes: &[
            FixedIndex { obj: ObjId(24), name: "i_ind1", columns: &[0] },
            FixedIndex { obj: ObjId(25), name: "i_ind2", columns: &[1, 0] },
        ],
    },
    FixedTable {
        obj: ObjId(6),
        name: "seq$",
        columns: &[
            ("obj", Int8, true),
            ("start", Int8, true),
            ("increment", Int8, true),
            ("min", Int8, true),
            ("max", Int8, true),
            ("cache", Int8, true),
            ("cycle", Bool, true),
            ("order", Bool, true),
            ("table", Int8, false),
            ("highwater", Int8, true),
            ("used", Bool, true),
            ("type", Int4, true),
            ("generation", Int8, false),
        ],
        indexes: &[FixedIndex { obj: ObjId(26), name: "i_seq1", columns: &[0] }],
    },
    FixedTable {
        obj: ObjId(7),
        name: "user$",
        columns: &[
            ("obj", Int8, true),
            ("name", Text, true),
            ("verifier", Text, false),
            ("superuser", Bool, true),
            ("inherit", Bool, true),
            ("create_role", Bool, true),
            ("create_db", Bool, true),
            ("login", Bool, true),
            ("replication", Bool, true),
            ("bypass_rls", Bool, true),
            ("connections", Int4, true),
            ("valid_until", Int8, false),
            ("config", Text, false),
            ("made", Int8, false),
        ],
        indexes: &[FixedIndex { obj: ObjId(27), name: "i_user1", columns: &[1] }],
    },
    FixedTable {
        obj: ObjId(8),
        name: "props$",
        columns: &[("name", Text, true), ("value", Text, true)],
        indexes: &[FixedIndex { obj: ObjId(28), name: "i_props1", columns: &[0] }],
    },
    FixedTable {
        obj: ObjId(9),
        name: "orphan$",
        columns: &[
            ("header", Int8, true),
            ("birth", Int8, true),
            ("obj", Int8, true),
            ("instance", Int4, true),
        ],
        indexes: &[FixedIndex { obj: ObjId(29), name: "i_orphan1", columns: &[0, 1] }],
    },
    FixedTable {
        obj: ObjId(11),
        name: "con$",
        columns: &[
            ("table", Int8, true),
            ("name", Text, true),
            ("obj", Int8, true),
            ("kind", Text, true),
            ("text", Text, true),
        ],
        indexes: &[FixedIndex { obj: ObjId(30), name: "i_con1", columns: &[0, 1] }],
    },
    FixedTable {
        obj: ObjId(14),
        name: "schema$",
        columns: &[
            ("obj", Int8, true),
            ("name", Text, true),
            ("owner", Int8, true),
            ("acl", Text, false),
        ],
        indexes: &[FixedIndex { obj: ObjId(40), name: "i_schema1", columns: &[1] }],
    },
    FixedTable {
        obj: ObjId(15),
        name: "view$",
        columns: &[("obj", Int8, true), ("text", Text, true), ("check", Text, false)],
        indexes: &[FixedIndex { obj: ObjId(41), name: "i_view1", columns: &[0] }],
    },
    FixedTable {
        obj: ObjId(16),
        name: "dep$",
        columns: &[("obj", Int8, true), ("used", Int8, true), ("column", Text, true)],
        indexes: &[
            FixedIndex { obj: ObjId(42), name: "i_dep1", columns: &[0, 1, 2] },
            FixedIndex { obj: ObjId(43), name: "i_dep2", columns: &[1, 0, 2] },
        ],
    },
    FixedTable {
        obj: ObjId(18),
        name: "ref$",
        columns: &[
            ("table", Int8, true),
            ("name", Text, true),
            ("obj", Int8, true),
            ("columns", Text, true),
            ("parent", Int8, true),
            ("index", Int8, true),
            ("parts", Text, true),
            ("actions", Text, true),
            ("full", Bool, true),
            ("deferrable", Bool, true),
            ("deferred", Bool, true),
            ("validated", Bool, true),
        ],
        indexes: &[
            FixedIndex { obj: ObjId(38), name: "i_ref1", columns: &[0, 1] },
            FixedIndex { obj: ObjId(39), name: "i_ref2", columns: &[4, 2] },
        ],
    },
    FixedTable {
        obj: ObjId(12),
        name: "auth$",
        columns: &[
            ("role", Int8, true),
            ("member", Int8, true),
            ("grantor", Int8, true),
            ("admin", Bool, true),
        ],
        indexes: &[FixedIndex { obj: ObjId(31), name: "i_auth1", columns: &[0, 1] }],
    },
    FixedTable {
        obj: ObjId(13),
        name: "defacl$",
        columns: &[
            ("role", Int8, true),
            ("schema", Int8, true),
            ("kind", Text, true),
            ("acl", Text, true),
        ],
        indexes: &[FixedIndex { obj: ObjId(32), name: "i_defacl1", columns: &[0, 1, 2] }],
    },
    FixedTable {
        obj: ObjId(34),
        name: "type$",
        columns: &[
            ("obj", Int8, true),
            ("schema", Text, true),
            ("name", Text, true),
            ("owner", Int8, true),
            ("acl", Text, false),
            ("comment", Text, false),
            ("made", Int8, false),
            ("altered", Int8, false),
            ("shaped", Int8, false),
        ],
        indexes: &[
            FixedIndex { obj: ObjId(36), name: "i_type1", columns: &[0] },
            FixedIndex { obj: ObjId(37), name: "i_type2", columns: &[1, 2] },
        ],
    },
    FixedTable {
        obj: ObjId(35),
        name: "enum$",
        columns: &[
            ("type", Int8, true),
            ("position", Int8, true),
            ("obj", Int8, true),
            ("label", Text, true),
        ],
        indexes: &[
            FixedIndex { obj: ObjId(44), name: "i_enum1", columns: &[0, 1] },
            FixedIndex { obj: ObjId(45), name: "i_enum2", columns: &[0, 3] },
        ],
    },
    FixedTable {
        obj: ObjId(48),
        name: "tabstat$",
        columns: &[
            ("obj", Int8, true),
            ("rows", Float8, true),
            ("blocks", Int8, true),
            ("row_bytes", Float8, true),
            ("sampled", Int8, true),
            ("analyzed", Int8, false),
            ("autoanalyzed", Int8, false),
            ("analyze_count", Int8, true),
            ("autoanalyze_count", Int8, true),
        ],
        indexes: &[FixedIndex { obj: ObjId(46), name: "i_tabstat1", columns: &[0] }],
    },
    FixedTable {
        obj: ObjId(49),
        name: "colstat$",
        columns: &[
            ("obj", Int8, true),
            ("position", Int4, true),
            ("null_fraction", Float8, true),
            ("distinct", Float8, true),
            ("width", Float8, true),
            ("correlation", Float8, false),
            ("common", Bytea, false),
            ("frequencies", Bytea, false),
            ("histogram", Bytea, false),
        ],
        indexes: &[FixedIndex { obj: ObjId(47), name: "i_colstat1", columns: &[0, 1] }],
    },
    FixedTable {
        obj: ObjId(50),
        name: "comment$",
        columns: &[("obj", Int8, true), ("kind", Text, true), ("comment", Text, true)],
        indexes: &[FixedIndex { obj: ObjId(51), name: "i_comment1", columns: &[0, 1] }],
    },
    FixedTable {
        obj: ObjId(53),
        name: "proc$",
        columns: &[
            ("obj", Int8, true),
            ("schema", Text, true),
            ("name", Text, true),
            ("signature", Text, true),
            ("owner", Int8, true),
            ("kind", Text, true),
            ("result", Text, true),
            ("set", Bool, true),
            ("language", Text, true),
            ("strict", Bool, true),
            ("volatility", Text, true),
            ("definer", Bool, true),
            ("options", Text, true),
            ("text", Text, true),
            ("acl", Text, false),
            ("comment", Text, false),
            ("type", Int4, true),
            ("modifier", Int4, true),
            ("made", Int8, false),
            ("altered", Int8, false),
            ("shaped", Int8, false),
        ],
        indexes: &[
            FixedIndex { obj: ObjId(55), name: "i_proc1", columns: &[0] },
            FixedIndex { obj: ObjId(56), name: "i_proc2", columns: &[1, 2, 3] },
        ],
    },
    FixedTable {
        obj: ObjId(54),
        name: "arg$",
        columns: &[
            ("routine", Int8, true),
            ("position", Int4, true),
            ("name", Text, true),
            ("mode", Text, true),
            ("type", Int4, true),
            ("modifier", Int4, true),
            ("default", Text, false),
        ],
        indexes: &[FixedIndex { obj: ObjId(57), name: "i_arg1", columns: &[0, 1] }],
    },
];

impl FixedTable {
    /// The definition, once it is known where the segments are. `None` if a place is missing.
    pub fn define(&self, places: &[Place]) -> Option<TableDef> {
        let find = |obj: ObjId| places.iter().find(|place| place.obj == obj).copied();
        let own = find(self.obj)?;
        let columns: Vec<ColumnDef> = self
            .columns
            .iter()
            .map(|(name, kind, not_null)| ColumnDef {
                not_null: *not_null,
                ..ColumnDef::new(name, ColType::new(*kind))
            })
            .collect();
        let indexes = self
            .indexes
            .iter()
            .map(|index| {
                let place = find(index.obj)?;
                Some(Arc::new(IndexDef {
                    kind: Default::default(),
                    obj: index.obj,
                    name: index.name.to_owned(),
                    table: self.obj,
                    columns: index.columns.to_vec(),
                    included: Included::default(),
                    orders: Vec::new(),
                    unique: true,
                    primary: false,
                    constraint: None,
                    header: place.header,
                    root: place.root,
                    birth: place.birth,
                    predicate: None,
                    exprs: Vec::new(),
                    evaluator: Evaluator::default(),
                    derived: Derived::default(),
                }))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(TableDef {
            obj: self.obj,
            schema: SYS.to_owned(),
            name: self.name.to_owned(),
            owner: SUPERUSER_OBJ,
            acl: None,
            types: columns.iter().map(|column| column.ty).collect(),
            columns,
            header: own.header,
            birth: own.birth,
            indexes,
            partial: Vec::new(),
            computed: Vec::new(),
            checks: Vec::new(),
            foreign: Vec::new(),
            referenced: Vec::new(),
            comment: None,
            view: None,
            materialized: None,
            derived: Derived::default(),
            statistics: Derived::default(),
            changes: Changes::default(),
            version: u64::from(self.obj.0),
            form: u64::from(self.obj.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_below_the_users() {
        let mut numbers = vec![BOOTSTRAP_OBJ.0, SUPERUSER_OBJ.0, SCHEMAS_OBJ.0, PUBLIC_OBJ.0];
        numbers.extend([ROLES_OBJ.0, TYPES_OBJ.0, ROUTINES_OBJ.0]);
        numbers.extend(PREDEFINED_ROLES.iter().map(|(number, _)| number.0));
        for table in &TABLES {
            numbers.push(table.obj.0);
            numbers.extend(table.indexes.iter().map(|index| index.obj.0));
        }
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
        assert!(numbers.iter().all(|number| *number < USER_OBJ_MIN));
    }

    #[test]
    fn index_columns_are_columns_and_never_null() {
        for table in &TABLES {
            for index in table.indexes {
                for column in index.columns {
                    assert!(table.columns[usize::from(*column)].2, "{}", index.name);
                }
            }
        }
    }

    #[test]
    fn a_missing_place_is_noticed() {
        assert!(TABLES[Fixed::Obj as usize].define(&[]).is_none());
        let place = |obj| Place { obj, header: Dba::new(4, 1), root: Dba::NONE, birth: Scn(1) };
        let places: Vec<Place> = [8, 28].map(|obj| place(ObjId(obj))).to_vec();
        let def = TABLES[Fixed::Props as usize].define(&places).expect("all places given");
        assert_eq!((def.name.as_str(), def.indexes.len()), ("props$", 1));
    }
}
