//! Tables of the catalog that have no rows here.
//!
//! What it promises: the columns clients join on. What it must never do: hide that something
//! exists; whatever can be made here moves to a module with rows.

use crate::catalog::rows::Rows;
use crate::catalog::rows::Shape::{Bool, Char, Float8, Int2, Int4, Name, NoList, Oid, Other, Text};
use query::types::oid;

/// Columns of the views that have no rows here.
pub(super) fn empty(name: &str) -> Option<Rows> {
    Some(Rows::new(match name {
        "pg_matviews" => &[
            ("schemaname", Name),
            ("matviewname", Name),
            ("matviewowner", Name),
            ("definition", Text),
        ],
        "pg_proc" => &[
            ("oid", Oid),
            ("proname", Name),
            ("pronamespace", Oid),
            ("proowner", Oid),
            ("prolang", Oid),
            ("prokind", Char),
            ("prorettype", Oid),
            ("proargtypes", Other(oid::OIDVECTOR)),
            ("proretset", Bool),
            ("prosrc", Text),
        ],
        "pg_shdescription" => &[("objoid", Oid), ("classoid", Oid), ("description", Text)],
        "pg_inherits" => {
            &[("inhrelid", Oid), ("inhparent", Oid), ("inhseqno", Int4), ("inhdetachpending", Bool)]
        }
        "pg_policy" => &[
            ("oid", Oid),
            ("polname", Name),
            ("polrelid", Oid),
            ("polcmd", Char),
            ("polpermissive", Bool),
            ("polroles", NoList),
            ("polqual", Text),
            ("polwithcheck", Text),
        ],
        "pg_trigger" => &[
            ("oid", Oid),
            ("tgrelid", Oid),
            ("tgparentid", Oid),
            ("tgname", Name),
            ("tgfoid", Oid),
            ("tgtype", Int2),
            ("tgenabled", Char),
            ("tgisinternal", Bool),
            ("tgconstraint", Oid),
        ],
        "pg_depend" => &[
            ("classid", Oid),
            ("objid", Oid),
            ("objsubid", Int4),
            ("refclassid", Oid),
            ("refobjid", Oid),
            ("refobjsubid", Int4),
            ("deptype", Char),
        ],
        "pg_enum" => {
            &[("oid", Oid), ("enumtypid", Oid), ("enumsortorder", Float8), ("enumlabel", Name)]
        }
        "pg_range" => &[("rngtypid", Oid), ("rngsubtype", Oid), ("rngmultitypid", Oid)],
        "pg_extension" => &[
            ("oid", Oid),
            ("extname", Name),
            ("extowner", Oid),
            ("extnamespace", Oid),
            ("extversion", Text),
        ],
        "pg_publication" => &[("oid", Oid), ("pubname", Name), ("puballtables", Bool)],
        "pg_publication_rel" => &[
            ("oid", Oid),
            ("prpubid", Oid),
            ("prrelid", Oid),
            ("prqual", Other(194)),
            ("prattrs", Other(oid::INT2VECTOR)),
        ],
        "pg_publication_namespace" => &[("oid", Oid), ("pnpubid", Oid), ("pnnspid", Oid)],
        "pg_statistic_ext" => &[
            ("oid", Oid),
            ("stxrelid", Oid),
            ("stxname", Name),
            ("stxnamespace", Oid),
            ("stxkeys", Other(oid::INT2VECTOR)),
            ("stxkind", Text),
            ("stxstattarget", Int4),
        ],
        "pg_foreign_table" => &[("ftrelid", Oid), ("ftserver", Oid), ("ftoptions", Text)],
        "pg_foreign_server" => &[("oid", Oid), ("srvname", Name)],
        "pg_partitioned_table" => &[("partrelid", Oid), ("partstrat", Char), ("partdefid", Oid)],
        "pg_opclass" => {
            &[("oid", Oid), ("opcname", Name), ("opcmethod", Oid), ("opcdefault", Bool)]
        }
        "pg_language" => &[("oid", Oid), ("lanname", Name)],
        _ => return None,
    }))
}
