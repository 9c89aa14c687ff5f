//! `pg_type`: the types clients ask about.

use query::types::oid;

/// OID, name, length, by value, category, array OID (0: none).
pub(super) const TYPES: &[(u32, &str, i16, bool, &str, u32)] = &[
    (oid::BOOL, "bool", 1, true, "B", 1000),
    (oid::BYTEA, "bytea", -1, false, "U", 1001),
    (oid::CHAR, "char", 1, true, "Z", 1002),
    (oid::NAME, "name", 64, false, "S", 1003),
    (oid::INT8, "int8", 8, true, "N", 1016),
    (oid::INT2, "int2", 2, true, "N", 1005),
    (oid::INT2VECTOR, "int2vector", -1, false, "A", 1006),
    (oid::INT4, "int4", 4, true, "N", 1007),
    (oid::REGPROC, "regproc", 4, true, "N", 1008),
    (oid::TEXT, "text", -1, false, "S", oid::TEXT_ARRAY),
    (oid::OID, "oid", 4, true, "N", 1028),
    (oid::OIDVECTOR, "oidvector", -1, false, "A", 1013),
    (oid::PG_NODE_TREE, "pg_node_tree", -1, false, "Z", 0),
    (oid::FLOAT4, "float4", 4, true, "N", 1021),
    (oid::FLOAT8, "float8", 8, true, "N", 1022),
    (oid::UNKNOWN, "unknown", -2, false, "X", 0),
    (oid::BPCHAR, "bpchar", -1, false, "S", 1014),
    (oid::VARCHAR, "varchar", -1, false, "S", 1015),
    (oid::DATE, "date", 4, true, "D", 1182),
    (oid::TIME, "time", 8, true, "D", 1183),
    (oid::TIMESTAMP, "timestamp", 8, true, "D", 1115),
    (oid::TIMESTAMPTZ, "timestamptz", 8, true, "D", 1185),
    (oid::INTERVAL, "interval", 16, false, "T", 1187),
    (oid::NUMERIC, "numeric", -1, false, "N", 1231),
    (oid::REGCLASS, "regclass", 4, true, "N", 2210),
    (oid::REGTYPE, "regtype", 4, true, "N", 2211),
    (oid::VOID, "void", 4, true, "P", 0),
    (oid::UUID, "uuid", 16, false, "U", 2951),
    (oid::JSON, "json", -1, false, "U", 199),
    (oid::JSONB, "jsonb", -1, false, "U", 3807),
];

/// OID of a type by its name.
pub(super) fn by_name(name: &str) -> Option<u32> {
    let name = match name.trim() {
        "integer" | "int" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "boolean" => "bool",
        "double precision" => "float8",
        "real" => "float4",
        "character varying" => "varchar",
        "character" => "bpchar",
        "decimal" => "numeric",
        "timestamp without time zone" => "timestamp",
        "time without time zone" => "time",
        "timestamp with time zone" => "timestamptz",
        other => other,
    };
    TYPES.iter().find(|t| t.1 == name).map(|t| t.0)
}
