//! Tables of the catalog that have no rows here.
//!
//! What it promises: the columns clients join on. What it must never do: hide that something
//! exists; whatever can be made here moves to a module with rows.

use crate::catalog::rows::Rows;
use crate::catalog::rows::Shape::{
    Bool, Char, Int2, Int4, List, Name, NoList, Object, Oid, Other, Text,
};
use query::types::oid;

/// Columns of the views that have no rows here.
pub(super) fn empty(name: &str) -> Option<Rows> {
    Some(Rows::new(match name {
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
            ("tgconstrrelid", Oid),
            ("tgconstrindid", Oid),
            ("tgconstraint", Oid),
            ("tgdeferrable", Bool),
            ("tginitdeferred", Bool),
            ("tgnargs", Int2),
            ("tgattr", List(oid::INT2VECTOR)),
            ("tgargs", Text),
            ("tgqual", Other(oid::PG_NODE_TREE)),
            ("tgoldtable", Name),
            ("tgnewtable", Name),
        ],
        "pg_range" => &[("rngtypid", Oid), ("rngsubtype", Oid), ("rngmultitypid", Oid)],
        "pg_extension" => &[
            ("oid", Oid),
            ("extname", Name),
            ("extowner", Oid),
            ("extnamespace", Oid),
            ("extrelocatable", Bool),
            ("extversion", Text),
            ("extconfig", List(oid::OID_ARRAY)),
            ("extcondition", NoList),
        ],
        "pg_publication" => &[
            ("oid", Oid),
            ("pubname", Name),
            ("pubowner", Oid),
            ("puballtables", Bool),
            ("pubinsert", Bool),
            ("pubupdate", Bool),
            ("pubdelete", Bool),
            ("pubtruncate", Bool),
            ("pubviaroot", Bool),
        ],
        "pg_publication_rel" => &[
            ("oid", Oid),
            ("prpubid", Oid),
            ("prrelid", Oid),
            ("prqual", Other(194)),
            ("prattrs", List(oid::INT2VECTOR)),
        ],
        "pg_amproc" => &[
            ("oid", Oid),
            ("amprocfamily", Oid),
            ("amproclefttype", Oid),
            ("amprocrighttype", Oid),
            ("amprocnum", Int2),
            ("amproc", Object(oid::REGPROC)),
        ],
        "pg_conversion" => &[
            ("oid", Oid),
            ("conname", Name),
            ("connamespace", Oid),
            ("conowner", Oid),
            ("conforencoding", Int4),
            ("contoencoding", Int4),
            ("conproc", Object(oid::REGPROC)),
            ("condefault", Bool),
        ],
        "pg_shdepend" => &[
            ("dbid", Oid),
            ("classid", Oid),
            ("objid", Oid),
            ("objsubid", Int4),
            ("refclassid", Oid),
            ("refobjid", Oid),
            ("deptype", Char),
        ],
        "pg_seclabel" => &[
            ("objoid", Oid),
            ("classoid", Oid),
            ("objsubid", Int4),
            ("provider", Text),
            ("label", Text),
        ],
        "pg_seclabels" => &[
            ("objoid", Oid),
            ("classoid", Oid),
            ("objsubid", Int4),
            ("objtype", Text),
            ("objnamespace", Oid),
            ("objname", Text),
            ("provider", Text),
            ("label", Text),
        ],
        "pg_shseclabel" => {
            &[("objoid", Oid), ("classoid", Oid), ("provider", Text), ("label", Text)]
        }
        "pg_event_trigger" => &[
            ("oid", Oid),
            ("evtname", Name),
            ("evtevent", Name),
            ("evtowner", Oid),
            ("evtfoid", Oid),
            ("evtenabled", Char),
            ("evttags", NoList),
        ],
        "pg_foreign_data_wrapper" => &[
            ("oid", Oid),
            ("fdwname", Name),
            ("fdwowner", Oid),
            ("fdwhandler", Oid),
            ("fdwvalidator", Oid),
            ("fdwacl", NoList),
            ("fdwoptions", NoList),
        ],
        "pg_user_mapping" => {
            &[("oid", Oid), ("umuser", Oid), ("umserver", Oid), ("umoptions", NoList)]
        }
        "pg_user_mappings" => &[
            ("umid", Oid),
            ("srvid", Oid),
            ("srvname", Name),
            ("umuser", Oid),
            ("usename", Name),
            ("umoptions", NoList),
        ],
        "pg_available_extensions" => &[
            ("name", Name),
            ("default_version", Text),
            ("installed_version", Text),
            ("comment", Text),
        ],
        "pg_prepared_xacts" => {
            &[("transaction", Oid), ("gid", Text), ("owner", Name), ("database", Name)]
        }
        "pg_parameter_acl" => &[("oid", Oid), ("parname", Text), ("paracl", NoList)],
        "pg_rules" => {
            &[("schemaname", Name), ("tablename", Name), ("rulename", Name), ("definition", Text)]
        }
        "pg_policies" => &[
            ("schemaname", Name),
            ("tablename", Name),
            ("policyname", Name),
            ("permissive", Text),
            ("roles", NoList),
            ("cmd", Text),
            ("qual", Text),
            ("with_check", Text),
        ],
        "pg_init_privs" => &[
            ("objoid", Oid),
            ("classoid", Oid),
            ("objsubid", Int4),
            ("privtype", Char),
            ("initprivs", NoList),
        ],
        "pg_largeobject_metadata" => &[("oid", Oid), ("lomowner", Oid), ("lomacl", NoList)],
        "pg_largeobject" => &[("loid", Oid), ("pageno", Int4), ("data", Text)],
        "pg_transform" => &[
            ("oid", Oid),
            ("trftype", Oid),
            ("trflang", Oid),
            ("trffromsql", Object(oid::REGPROC)),
            ("trftosql", Object(oid::REGPROC)),
        ],
        "pg_ts_config" => &[
            ("oid", Oid),
            ("cfgname", Name),
            ("cfgnamespace", Oid),
            ("cfgowner", Oid),
            ("cfgparser", Oid),
        ],
        "pg_ts_dict" => &[
            ("oid", Oid),
            ("dictname", Name),
            ("dictnamespace", Oid),
            ("dictowner", Oid),
            ("dicttemplate", Oid),
            ("dictinitoption", Text),
        ],
        "pg_ts_parser" => &[
            ("oid", Oid),
            ("prsname", Name),
            ("prsnamespace", Oid),
            ("prsstart", Object(oid::REGPROC)),
            ("prstoken", Object(oid::REGPROC)),
            ("prsend", Object(oid::REGPROC)),
            ("prsheadline", Object(oid::REGPROC)),
            ("prslextype", Object(oid::REGPROC)),
        ],
        "pg_ts_template" => &[
            ("oid", Oid),
            ("tmplname", Name),
            ("tmplnamespace", Oid),
            ("tmplinit", Object(oid::REGPROC)),
            ("tmpllexize", Object(oid::REGPROC)),
        ],
        "pg_subscription" => &[
            ("oid", Oid),
            ("subdbid", Oid),
            ("subname", Name),
            ("subowner", Oid),
            ("subenabled", Bool),
            ("subbinary", Bool),
            ("substream", Bool),
            ("subtwophasestate", Char),
            ("subdisableonerr", Bool),
            ("subconninfo", Text),
            ("subslotname", Name),
            ("subsynccommit", Text),
            ("subpublications", NoList),
        ],
        "pg_statistic_ext_data" => &[("stxoid", Oid), ("stxdinherit", Bool)],
        "pg_publication_namespace" => &[("oid", Oid), ("pnpubid", Oid), ("pnnspid", Oid)],
        "pg_statistic_ext" => &[
            ("oid", Oid),
            ("stxrelid", Oid),
            ("stxname", Name),
            ("stxnamespace", Oid),
            ("stxowner", Oid),
            ("stxkeys", List(oid::INT2VECTOR)),
            ("stxkind", List(oid::CHAR_ARRAY)),
            ("stxstattarget", Int4),
        ],
        "pg_foreign_table" => &[("ftrelid", Oid), ("ftserver", Oid), ("ftoptions", NoList)],
        "pg_foreign_server" => &[
            ("oid", Oid),
            ("srvname", Name),
            ("srvowner", Oid),
            ("srvfdw", Oid),
            ("srvtype", Text),
            ("srvversion", Text),
            ("srvacl", NoList),
            ("srvoptions", NoList),
        ],
        "pg_partitioned_table" => &[
            ("partrelid", Oid),
            ("partstrat", Char),
            ("partnatts", Int2),
            ("partdefid", Oid),
            ("partattrs", List(oid::INT2VECTOR)),
            ("partclass", List(oid::OIDVECTOR)),
        ],
        _ => return None,
    }))
}
