//! `pg_catalog`, as far as psql and drivers ask: one module for each group of its tables, and here
//! their names and OIDs.
//!
//! What it promises: columns have PostgreSQL's names and types; a constraint has the OID of the
//! index behind it. Views that have no rows here exist so that clients' joins work. What it must
//! never do: invent a row for something that is not there.

mod activity;
mod database;
mod empty;
mod indexes;
mod relations;
mod roles;
mod routines;
mod sequences;
mod statistics;
mod types;

pub(crate) use activity::sees_statements_of;
pub(super) use relations::shown_default;

use super::Catalog;
use super::rows::{Rows, int};
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

/// Owner of what the system has made.
const OWNER: i64 = 10;

/// Views of `pg_catalog` with PostgreSQL's OIDs where it has them.
const VIEWS: &[(&str, i64)] = &[
    ("pg_class", 1259),
    ("pg_attribute", 1249),
    ("pg_type", 1247),
    ("pg_namespace", 2615),
    ("pg_index", 2610),
    ("pg_constraint", 2606),
    ("pg_attrdef", 2604),
    ("pg_database", 1262),
    ("pg_roles", 12_000),
    ("pg_user", 12_001),
    ("pg_authid", 1260),
    ("pg_settings", 12_002),
    ("pg_cursors", 12_009),
    ("pg_locks", 12_010),
    ("pg_sequence", 2224),
    ("pg_sequences", 12_003),
    ("pg_tables", 12_004),
    ("pg_indexes", 12_005),
    ("pg_views", 12_006),
    ("pg_matviews", 12_007),
    ("pg_am", 2601),
    ("pg_proc", 1255),
    ("pg_description", 2609),
    ("pg_shdescription", 2396),
    ("pg_collation", 3456),
    ("pg_inherits", 2611),
    ("pg_policy", 3256),
    ("pg_trigger", 2620),
    ("pg_rewrite", 2618),
    ("pg_depend", 2608),
    ("pg_enum", 3501),
    ("pg_range", 3541),
    ("pg_extension", 3079),
    ("pg_tablespace", 1213),
    ("pg_publication", 6104),
    ("pg_publication_rel", 6106),
    ("pg_publication_namespace", 6237),
    ("pg_statistic_ext", 3381),
    ("pg_foreign_table", 3118),
    ("pg_foreign_server", 1417),
    ("pg_partitioned_table", 3350),
    ("pg_stat_activity", 12_008),
    ("pg_opclass", 2616),
    ("pg_language", 2612),
    ("pg_aggregate", 2600),
    ("pg_operator", 2617),
    ("pg_opfamily", 2753),
    ("pg_amop", 2602),
    ("pg_amproc", 2603),
    ("pg_cast", 2605),
    ("pg_conversion", 2607),
    ("pg_shdepend", 1214),
    ("pg_seclabel", 3596),
    ("pg_shseclabel", 3592),
    ("pg_seclabels", 12_011),
    ("pg_event_trigger", 3466),
    ("pg_foreign_data_wrapper", 2328),
    ("pg_user_mapping", 1418),
    ("pg_init_privs", 3394),
    ("pg_largeobject_metadata", 2995),
    ("pg_largeobject", 2613),
    ("pg_transform", 3576),
    ("pg_ts_config", 3602),
    ("pg_ts_dict", 3600),
    ("pg_ts_parser", 3601),
    ("pg_ts_template", 3764),
    ("pg_subscription", 6100),
    ("pg_statistic_ext_data", 3429),
    ("pg_db_role_setting", 2964),
    ("pg_auth_members", 1261),
    ("pg_default_acl", 826),
    ("pg_hba_file_rules", 12_012),
    ("pg_statistic", 2619),
    ("pg_stats", 12_013),
    ("pg_stat_all_tables", 12_014),
    ("pg_stat_user_tables", 12_015),
    ("pg_user_mappings", 12_016),
    ("pg_parameter_acl", 6243),
    ("pg_rules", 12_017),
    ("pg_available_extensions", 12_019),
    ("pg_prepared_xacts", 12_020),
    ("pg_policies", 12_018),
    ("pg_shadow", 12_021),
    ("pg_prepared_statements", 12_022),
    ("pg_timezone_names", 12_023),
    ("pg_stat_all_indexes", 12_024),
    ("pg_stat_user_indexes", 12_025),
    ("pg_statio_all_tables", 12_026),
    ("pg_statio_user_tables", 12_027),
    ("pg_stat_database", 12_028),
    ("pg_group", 12_029),
];

/// Whether there is a view of this name.
pub(super) fn is_known(name: &str) -> bool {
    VIEWS.iter().any(|(known, _)| *known == name) || name == KEYWORDS
}

/// What stands for a call of `pg_get_keywords()` in FROM.
pub(crate) const KEYWORDS: &str = "pg_get_keywords()";

/// Whether it is one that never has rows here.
pub(crate) fn is_empty_view(name: &str) -> bool {
    is_known(name) && empty::empty(name).is_some()
}

/// The type of a column of such a view.
pub(crate) fn empty_column(view: &str, column: &str) -> Option<&'static str> {
    let rows = empty::empty(view)?;
    if column == "tableoid" { Some("bigint") } else { Some(rows.shape(column)?.plain_type()) }
}

pub(super) fn system_oid(name: &str) -> Option<i64> {
    VIEWS.iter().find(|(known, _)| *known == name).map(|(_, oid)| *oid)
}

pub(crate) fn system_name(oid: i64) -> Option<&'static str> {
    VIEWS.iter().find(|(_, known)| *known == oid).map(|(name, _)| *name)
}

/// The view's rows.
pub(super) fn view(
    catalog: &Catalog,
    name: &str,
    user: &str,
    instance: &Arc<Instance>,
) -> Option<Rows> {
    Some(match name {
        "pg_class" => relations::classes(catalog),
        "pg_attribute" => relations::attributes(catalog),
        "pg_type" => types::type_rows(catalog),
        "pg_enum" => types::enums(catalog),
        "pg_namespace" => database::namespaces(catalog),
        "pg_index" => indexes::indexes(catalog),
        "pg_constraint" => indexes::constraints(catalog),
        "pg_attrdef" => relations::defaults(catalog),
        "pg_description" => relations::descriptions(catalog),
        "pg_shdescription" => relations::shared_descriptions(catalog),
        "pg_database" => database::databases(catalog),
        "pg_roles" | "pg_authid" => roles::roles(catalog),
        "pg_user" | "pg_shadow" => roles::users(catalog),
        "pg_group" => roles::groups(catalog),
        "pg_prepared_statements" => activity::prepared(catalog),
        "pg_timezone_names" => {
            activity::zones(instance.observer.env().wall_us() - query::datetime::EPOCH_US)
        }
        "pg_stat_all_indexes" | "pg_stat_user_indexes" => statistics::indexes(catalog),
        "pg_statio_all_tables" | "pg_statio_user_tables" => statistics::table_blocks(catalog),
        "pg_stat_database" => statistics::database(instance),
        "pg_auth_members" => super::rights::members(catalog),
        "pg_default_acl" => super::rights::defaults(catalog),
        "pg_hba_file_rules" => super::rights::rules(instance)?,
        "pg_db_role_setting" => roles::settings(catalog),
        "pg_settings" => database::settings(catalog),
        "pg_cursors" => activity::cursors(catalog),
        "pg_locks" => activity::locks(catalog, instance),
        "pg_sequence" => sequences::sequence_rows(catalog),
        "pg_sequences" => sequences::sequences(catalog),
        "pg_tables" => relations::tables(catalog),
        "pg_views" => relations::views(catalog),
        "pg_matviews" => relations::materialized(catalog),
        "pg_rewrite" => relations::rules(catalog),
        "pg_indexes" => indexes::index_list(catalog),
        "pg_proc" => routines::functions(catalog),
        KEYWORDS => routines::keywords(),
        "pg_aggregate" => routines::aggregates(),
        "pg_operator" => routines::operators(),
        "pg_cast" => routines::casts(),
        "pg_language" => routines::languages(),
        "pg_opclass" => routines::operator_classes(),
        "pg_opfamily" => routines::operator_families(),
        "pg_amop" => routines::family_operators(),
        "pg_depend" => routines::dependencies(catalog),
        "pg_am" => database::access_methods(),
        "pg_tablespace" => database::tablespaces(),
        "pg_collation" => types::collations(),
        "pg_stat_activity" => activity::activity(catalog, user),
        "pg_stats" => statistics::stats(catalog),
        "pg_statistic" => statistics::statistic(catalog),
        "pg_stat_all_tables" | "pg_stat_user_tables" => statistics::tables(catalog),
        other => empty::empty(other)?,
    })
}

fn oid_of(obj: block::ObjId) -> Value {
    int(obj.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_has_a_name_and_a_number_of_its_own() {
        for (at, (name, oid)) in VIEWS.iter().enumerate() {
            let twice = VIEWS[..at].iter().any(|(other, number)| other == name || number == oid);
            assert!(!twice, "{name}, {oid}");
        }
    }
}
